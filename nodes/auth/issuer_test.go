package auth_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// load returns a flow with a node that has some fields, which passes to "next".
func load(t testing.TB, fields string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, kinds()...)
	f.Load("- kind: auth\n  name: g\n  " + strings.ReplaceAll(fields, "\n    ", "\n  ") + "\n  ports: {out: [{name: who, port: in}]}\n- {kind: snippet, name: who, language: cel, code: auth}\n")
	return f
}

// check compares what becomes of a request.
func check(t testing.TB, f *flowtest.Flow, request, want string) {
	t.Helper()
	if got := send(f, request); got != want {
		t.Errorf("%s: got %s, want %s", request, got, want)
	}
}

// send returns the answer, or the status and the message of an error.
func send(f *flowtest.Flow, request string) string {
	v, err := value.ParseJSON([]byte(request))
	if err != nil {
		return err.Error()
	}
	return show(f.Send("g", v))
}

// An issuerServer is an issuer of OpenID Connect.
type issuerServer struct {
	*httptest.Server
	mu struct {
		sync.Mutex
		keys  []jose.JSONWebKey
		down  bool
		name  string        // as it calls itself; its URL unless set
		reads int           // of keys
		hold  chan struct{} // answers wait for it, if it is set
	}
}

func newIssuerServer(t testing.TB, keys ...jose.JSONWebKey) *issuerServer {
	s := new(issuerServer)
	s.mu.keys = keys
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *issuerServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	keys, down, name, hold := s.mu.keys, s.mu.down, s.mu.name, s.mu.hold
	if r.URL.Path == "/keys" {
		s.mu.reads++
	}
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	if name == "" {
		name = s.URL
	}
	switch {
	case down:
		http.Error(w, "down", http.StatusServiceUnavailable)
	case r.URL.Path == "/keys":
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: keys})
	default:
		json.NewEncoder(w).Encode(map[string]any{"issuer": name, "jwks_uri": s.URL + "/keys"})
	}
}

func (s *issuerServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *issuerServer) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.reads
}

func (s *issuerServer) fields() string {
	return "any: {type: oidc, issuer: '" + s.URL + "', audience: orders, algorithms: [ES256, RS256]}\n    require: 'true'"
}

func (s *issuerServer) token(t testing.TB, by *signer) string {
	return request(by.token(t, claims{"iss": s.URL}))
}

const passed = `"sub":"ann"`

// want compares the beginning of an answer, or what is in it.
func want(t testing.TB, f *flowtest.Flow, request, want string) {
	t.Helper()
	if got := send(f, request); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRotation changes the keys of an issuer.
func TestRotation(t *testing.T) {
	a, b, c := newSigner(t, "a", jose.ES256), newSigner(t, "b", jose.RS256), newSigner(t, "c", jose.ES256)
	s := newIssuerServer(t, a.public())
	f := load(t, s.fields())
	want(t, f, s.token(t, a), passed)
	f.Sleep(time.Minute)
	want(t, f, s.token(t, a), passed)
	if got := s.reads(); got != 1 {
		t.Errorf("got %d reads of the keys, want 1", got)
	}

	s.set(func() { s.mu.keys = []jose.JSONWebKey{b.public()} })
	want(t, f, s.token(t, b), passed)
	want(t, f, s.token(t, a), "401: the key of the token is not known")
	for range 100 {
		want(t, f, s.token(t, c), "401: the key of the token is not known")
	}
	if got := s.reads(); got != 2 {
		t.Errorf("got %d reads of the keys, want 2", got)
	}

	f.Sleep(time.Minute)
	want(t, f, s.token(t, c), "401: the key of the token is not known")
	if got := s.reads(); got != 3 {
		t.Errorf("got %d reads of the keys, want 3", got)
	}

	// A key that was withdrawn is forgotten within the hour.
	s.set(func() { s.mu.keys = []jose.JSONWebKey{c.public()} })
	want(t, f, s.token(t, b), passed)
	f.Sleep(50 * time.Minute)
	want(t, f, s.token(t, b), passed) // it reads the keys, and is not kept waiting
	f.Sleep(time.Second)
	want(t, f, s.token(t, b), "401: the key of the token is not known")
	want(t, f, s.token(t, c), passed)

	// Also if there was no request in that hour.
	s.set(func() { s.mu.keys = []jose.JSONWebKey{a.public()} })
	f.Sleep(time.Hour)
	want(t, f, s.token(t, c), "401: the key of the token is not known")
}

// TestStale takes an issuer away.
func TestStale(t *testing.T) {
	a := newSigner(t, "a", jose.ES256)
	s := newIssuerServer(t, a.public())
	f := load(t, s.fields())
	want(t, f, s.token(t, a), passed)
	s.set(func() { s.mu.down = true })
	for range 5 {
		f.Sleep(time.Hour)
		want(t, f, s.token(t, a), passed)
	}
	if got := f.Log(); !strings.Contains(got, "the keys of an issuer cannot be read") || !strings.Contains(got, "status 503") {
		t.Errorf("log: got %s, want why the keys cannot be read", got)
	}
}

// TestDown starts without an issuer.
func TestDown(t *testing.T) {
	a := newSigner(t, "a", jose.ES256)
	s := newIssuerServer(t, a.public())
	s.set(func() { s.mu.down = true })
	f := load(t, s.fields())
	r := f.Send("g", flowtest.Parse(t, s.token(t, a)))
	e := node.Describe(r.Payload.AsError())
	if e.Status != 503 || e.Code != "keys" || e.RetryAfter < time.Second {
		t.Errorf("got %#v, want a status of 503 with a time to wait", e)
	}
	f.Sleep(time.Second)
	if err := f.Engine().Ready(); len(err) != 1 || !strings.Contains(err[0].Error(), "the answer has the status 503") {
		t.Errorf("got %v, want that it is not ready, and why", err)
	}
	want(t, f, `{"header": {}}`, "401: credentials are missing")
	s.set(func() { s.mu.down = false })
	f.Sleep(time.Minute)
	want(t, f, s.token(t, a), passed)
	if err := f.Engine().Ready(); len(err) != 0 {
		t.Errorf("got %v, want that it is ready", err)
	}
}

// TestSharedRead sends many requests for a key that is being read.
func TestSharedRead(t *testing.T) {
	a := newSigner(t, "a", jose.ES256)
	s := newIssuerServer(t, a.public())
	hold := make(chan struct{})
	s.set(func() { s.mu.hold = hold })
	f := load(t, s.fields())
	var calls []*flowtest.Call
	for range 50 {
		calls = append(calls, f.Start("g", flowtest.Parse(t, s.token(t, a))))
	}
	close(hold)
	for _, c := range calls {
		if got := show(c.Response()); !strings.Contains(got, passed) {
			t.Errorf("got %s, want that it passes", got)
		}
	}
	if got := s.reads(); got != 1 {
		t.Errorf("got %d reads of the keys, want 1", got)
	}
}

// TestIssuerName refuses an issuer that calls itself otherwise.
func TestIssuerName(t *testing.T) {
	a := newSigner(t, "a", jose.ES256)
	s := newIssuerServer(t, a.public())
	s.set(func() { s.mu.name = "https://id.example.org" })
	f := load(t, s.fields())
	want(t, f, s.token(t, a), "503: the keys of the issuer cannot be read")
	if got := f.Log(); !strings.Contains(got, "the issuer calls itself") {
		t.Errorf("log: got %s, want what is wrong", got)
	}
}

// TestReloadKeeps reads keys once, whatever the number of generations.
func TestReloadKeeps(t *testing.T) {
	a := newSigner(t, "a", jose.ES256)
	s := newIssuerServer(t, a.public())
	f := load(t, s.fields())
	want(t, f, s.token(t, a), passed)
	s.set(func() { s.mu.down = true })
	f.Load("- kind: auth\n  name: g\n  " + s.fields()[:strings.Index(s.fields(), "\n")] + "\n  realm: other\n")
	want(t, f, s.token(t, a), passed)
	if got := s.reads(); got != 1 {
		t.Errorf("got %d reads of the keys, want 1", got)
	}
}
