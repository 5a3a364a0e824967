//go:build linux && !race

package hostile

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// guarded is an API whose clients are strangers. TARGET is a server behind it, ISSUER one of
// keys, and ROOT a folder.
const guarded = `
- kind: listener
  name: listener
  protocol: http
  host: 127.0.0.1
  port: PORT
  secure: true
  trusted_proxies: [127.0.0.1]
  limits: {body_bytes: 64KiB, header_timeout: 5s}
  cors: {origins: ['https://shop.example.com'], credentials: true}
  ports: {out: [{name: router}]}
- kind: router
  name: router
  routes:
    - {method: GET, path: /small, port: 'out[0]'}
    - {method: '*', path: /files/*, port: 'out[1]'}
    - {method: '*', path: /target/*, port: 'out[2]'}
    - {method: POST, path: /hook, port: 'out[3]'}
    - {method: GET, path: /token, port: 'out[4]'}
    - {method: GET, path: /issuer, port: 'out[5]'}
    - {method: GET, path: /session, port: 'out[6]'}
    - {method: GET, path: /fair, port: 'out[7]'}
    - {method: POST, path: /order, port: 'out[8]'}
  ports:
    out[0]: [{name: small}]
    out[1]: [{name: files}]
    out[2]: [{name: target}]
    out[3]: [{name: hook}]
    out[4]: [{name: token}]
    out[5]: [{name: issuer}]
    out[6]: [{name: session}]
    out[7]: [{name: fair}]
    out[8]: [{name: order}]
- {kind: static, name: files, root: 'ROOT', strip: /files}
- {kind: proxy, name: target, target: 'TARGET', strip: /target, header: {X-User: guest, Authorization: Bearer of-the-proxy-alone}}
- {kind: auth, name: hook, any: {type: hmac, preset: slack, keys: [{id: slack, secret: SECRET}]}, ports: {out: [{name: small}]}}
- {kind: auth, name: token, any: {type: jwt, audience: api, keys: [{algorithms: [HS256], secret: SECRET}]}, ports: {out: [{name: small}]}}
- {kind: auth, name: issuer, any: {type: jwt, issuer: 'https://id.example.com', audience: api, keys: [{algorithms: [RS256], jwks: 'ISSUER'}]}, ports: {out: [{name: small}]}}
- {kind: session, name: session, cookie: {secret: SECRET}, store: {bytes: 4MiB}, ports: {out: [{name: remember}]}}
- {kind: remember, name: remember, set: {agent: "${self.header['User-Agent'][0]}"}, ports: {out: [{name: small}]}}
- {kind: limit, name: fair, key: self.remote, rate: 1/d, ports: {out: [{name: small}]}}
- {kind: validate, name: order, schema: {type: object, additionalProperties: false, properties: {n: {type: integer}}}, ports: {out: [{name: small}]}}
- {kind: snippet, name: small, language: text, code: ok}
`

const apiSecret = "a secret of thirty-two bytes....!"

// guard serves that workflow. The issuer takes requests and does not answer; reached counts
// requests to the target that it should not get.
func guard(t *testing.T) (s *target, reached *atomic.Int32) {
	t.Helper()
	reached = new(atomic.Int32)
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.RequestURI, "hidden") || r.Header.Get("X-User") != "guest" || len(r.Header["X_user"]) > 0 {
			reached.Add(1)
		}
		fmt.Fprint(w, "reached") //nolint:errcheck // the client notices
	}))
	t.Cleanup(behind.Close)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for name, text := range map[string]string{filepath.Join(dir, "private"): "private", filepath.Join(root, "index.html"): "public", filepath.Join(root, ".env"): "private"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"up": "..", "link": "../private", "far": "/etc/passwd"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	document := strings.NewReplacer("ROOT", root, "TARGET", behind.URL, "ISSUER", silent.URL, "SECRET", apiSecret).Replace(guarded)
	return serve(t, 512*mib, document), reached
}

// apis attacks what stands in front of an API.
func apis(t *testing.T) {
	t.Run("tokens", tokens)
	t.Run("webhooks", webhooks)
	t.Run("paths and requests", paths)
	t.Run("uploads", uploads)
	t.Run("keys without an end", flood)
}

// tokens sends tokens that no issuer has made.
func tokens(t *testing.T) {
	s, _ := guard(t)
	part := base64.RawURLEncoding.EncodeToString
	sign := func(header, claims, secret string) string {
		text := part([]byte(header)) + "." + part([]byte(claims))
		return text + "." + part(mac(secret, text))
	}
	const claims = `{"aud":"api","iss":"https://id.example.com","sub":"ann","exp":4102444800}`
	good := sign(`{"alg":"HS256"}`, claims, apiSecret)
	f := func(name, path, token, want string) {
		t.Helper()
		status, body, err := s.ask(20*time.Second, http.MethodGet, path, map[string]string{"Authorization": "Bearer " + token, "Accept": "application/json"}, nil)
		if got := fmt.Sprint(status, " ", string(body)); err != nil || !strings.HasPrefix(got, want[:3]) || !strings.Contains(got, want[4:]) {
			t.Errorf("%s: got %s %v, want %s", name, got, err, want)
		}
	}
	f("good", "/token", good, "200 ok")
	f("forged", "/token", sign(`{"alg":"HS256"}`, claims, "another secret of the same length"), "401 the signature of the token is wrong")
	f("changed", "/token", strings.Replace(good, ".", "."+part([]byte(`{"a":1,`)), 1), "401 the token")
	f("none", "/token", part([]byte(`{"alg":"none"}`))+"."+part([]byte(claims))+".", "401 the algorithm of the token is not accepted")
	f("none, signed", "/token", sign(`{"alg":"none"}`, claims, apiSecret), "401 the algorithm of the token is not accepted")
	f("without a signature", "/token", good[:strings.LastIndex(good, ".")+1], "401 the signature of the token is wrong")
	f("longer hash", "/token", sign(`{"alg":"HS512"}`, claims, apiSecret), "401 the algorithm of the token is not accepted")
	f("expired", "/token", sign(`{"alg":"HS256"}`, `{"aud":"api","sub":"ann","exp":1000000000}`, apiSecret), "401 the token has expired")
	f("without an end", "/token", sign(`{"alg":"HS256"}`, `{"aud":"api","sub":"ann"}`, apiSecret), "401 the token has no expiry")
	f("for others", "/token", sign(`{"alg":"HS256"}`, `{"aud":"shop","sub":"ann","exp":4102444800}`, apiSecret), "401 the token is for another audience")
	f("large", "/token", good+strings.Repeat("A", 20_000), "401 the token is malformed")
	f("of a silent issuer", "/issuer", sign(`{"alg":"RS256"}`, claims, apiSecret), "503 the keys of the issuer cannot be read")
	f("not of its algorithm", "/issuer", good, "401 the algorithm of the token is not accepted")
	// Many requests that wait for the issuer hold up no others.
	var all sync.WaitGroup
	for range scale(50, 500) {
		all.Go(func() {
			f("of a silent issuer", "/issuer", sign(`{"alg":"RS256","kid":"x"}`, claims, apiSecret), "503 the keys of the issuer cannot be read")
		})
	}
	s.alive()
	all.Wait()
	s.quiet(apiSecret)
}

func mac(secret, text string) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return m.Sum(nil)
}

// quiet fails the test if the program has written a secret.
func (s *target) quiet(secrets ...string) {
	s.t.Helper()
	data, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, secret := range secrets {
		if bytes.Contains(data, []byte(secret)) {
			s.t.Errorf("the log has %s", secret)
		}
	}
}

// hook sends a webhook that was signed at a time.
func (s *target) hook(body, signed string, at time.Time) int {
	s.t.Helper()
	stamp := fmt.Sprint(at.Unix())
	status, _, err := s.ask(10*time.Second, http.MethodPost, "/hook", map[string]string{
		"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": "v0=" + hex.EncodeToString(mac(apiSecret, "v0:"+stamp+":"+signed)),
	}, []byte(body))
	if err != nil {
		s.t.Fatal(err)
	}
	return status
}

// webhooks sends webhooks again, late and changed.
func webhooks(t *testing.T) {
	s, _ := guard(t)
	now := time.Now()
	for _, f := range []struct {
		body, signed string
		at           time.Duration
		want         int
	}{
		{"second", "second", 0, 200}, {"first", "first", -time.Minute, 200}, // in another order
		{"second", "second", 0, 409}, {"first", "first", -time.Minute, 409},
		{"other", "second", 0, 401}, {"old", "old", -10 * time.Minute, 401}, {"ahead", "ahead", 10 * time.Minute, 401},
	} {
		if got := s.hook(f.body, f.signed, now.Add(f.at)); got != f.want {
			t.Errorf("%+v: got %d", f, got)
		}
	}
	// One that comes many times together passes once.
	var passed atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if s.hook("together", "together", now) == 200 {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if got := passed.Load(); got != 1 {
		t.Errorf("%d of 20 passed, want 1", got)
	}
	s.quiet(apiSecret)
}
