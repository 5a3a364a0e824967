package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// A site is one with a login in front of it, and its provider.
type site struct {
	t        testing.TB
	provider *httptest.Server
	url      string
	clock    *aheadClock
	engine   *uniflow.Engine
	document string
	log      *syncText

	down   atomic.Bool  // the provider refuses connections, in effect
	tokens atomic.Int64 // how many times it was asked for tokens
}

// An aheadClock is some time ahead of the clock of the machine.
type aheadClock struct {
	node.SystemClock
	ahead atomic.Int64
}

func (c *aheadClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

type syncText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *syncText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *syncText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

const (
	clientSecret = "the-secret-of-the-provider"
	cookieSecret = "an example of at least 32 bytes!"
	password     = "verysecure"
)

// newSite starts a site. extra are more fields of its login.
func newSite(t testing.TB, extra string) *site {
	t.Helper()
	s := &site{t: t, clock: new(aheadClock), log: new(syncText)}
	port := freeport.Port(t)
	s.url = fmt.Sprintf("http://127.0.0.1:%d", port)

	var handler http.Handler
	s.provider = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/token") {
			s.tokens.Add(1)
		}
		if s.down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	s.provider.Start()
	t.Cleanup(s.provider.Close)
	client := fmt.Sprintf("shop-%d", port)
	storage.RegisterClients(storage.WebClient(client, clientSecret, s.url+"/auth/callback"))
	handler = exampleop.SetupServer(s.provider.URL, storage.NewStorage(storage.NewUserStore(s.provider.URL)), slog.New(slog.DiscardHandler), false)

	s.document = fmt.Sprintf(`
- {kind: listener, name: web, protocol: http, host: 127.0.0.1, port: %d, ports: {out: [{name: door, port: in}]}}
- kind: login
  name: door
  issuer: %s
  url: %s
  client_id: %s
  client_secret: %s
  secret: %s
  scopes: [profile, email, offline_access]
  %s
  ports: {out: [{name: who, port: in}]}
- {kind: snippet, name: who, language: cel, code: 'has(self.auth) ? {"who": auth.subject, "path": path, "query": query, "claims": auth.claims} : "nobody"'}
`, port, s.provider.URL, s.url, client, clientSecret, cookieSecret, extra)
	var err error
	s.engine, err = uniflow.New(uniflow.Options{Kinds: std.Defs(""), Clock: s.clock, Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		for _, secret := range []string{clientSecret, cookieSecret} {
			if strings.Contains(s.log.String(), secret) {
				t.Errorf("the log has the secret %s", secret)
			}
		}
	})
	s.apply()
	return s
}

func (s *site) apply() {
	s.t.Helper()
	findings, err := s.engine.Apply(context.Background(), uniflow.Source{Documents: []spec.Document{{File: "site.yaml", Data: []byte(s.document)}}})
	if err != nil || findings.HasErrors() {
		s.t.Fatal(findings, err)
	}
}

// A browser keeps cookies, and follows redirects.
type browser struct {
	*http.Client
	t     testing.TB
	trail []string // the paths that it came through
}

func (s *site) browser() *browser {
	jar, _ := cookiejar.New(nil) // never fails
	b := &browser{t: s.t}
	b.Client = &http.Client{Jar: jar, Transport: new(http.Transport), CheckRedirect: func(r *http.Request, via []*http.Request) error {
		b.trail = append(b.trail, r.URL.EscapedPath())
		if len(via) > 60 {
			return errors.New("too many redirects")
		}
		return nil
	}}
	s.t.Cleanup(b.CloseIdleConnections)
	return b
}

// get opens a page, and returns the status and the text of the last one.
func (b *browser) get(target string, header ...string) (int, string, *http.Response) {
	b.t.Helper()
	r, err := http.NewRequest(http.MethodGet, target, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	return b.do(r, header...)
}

func (b *browser) do(r *http.Request, header ...string) (int, string, *http.Response) {
	b.t.Helper()
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	b.trail = nil
	resp, err := b.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp
}

var hidden = regexp.MustCompile(`name="id" value="([^"]*)"`)

// login opens a page of the site, and logs in at the provider. It returns what the browser
// then sees.
func (s *site) login(b *browser, path string) (int, string) {
	s.t.Helper()
	status, body, resp := b.get(s.url + path)
	found := hidden.FindStringSubmatch(body)
	if found == nil {
		s.t.Fatalf("got %d %s, want the page of the provider", status, body)
	}
	form := url.Values{"id": {found[1]}, "username": {"test-user@127.0.0.1"}, "password": {password}}
	r, err := http.NewRequest(http.MethodPost, resp.Request.URL.String(), strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	status, body, _ = b.do(r, "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html")
	return status, body
}
