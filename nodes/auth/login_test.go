package auth_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/value"
)

// loginWith has a login at a provider that gives no tokens. more is what it says about
// itself, fields are more fields of the login.
func loginWith(t *testing.T, more map[string]any, fields string) (f *flowtest.Flow, issuer string) {
	t.Helper()
	key := newSigner(t, "a", jose.RS256).public()
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"issuer": s.URL, "jwks_uri": s.URL + "/keys", "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token"}
		switch r.URL.Path {
		case "/keys":
			answer = map[string]any{"keys": []any{key}}
		case "/token":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			answer = map[string]any{"error": "invalid_grant"}
		default:
			for name, v := range more {
				answer[name] = v
			}
		}
		json.NewEncoder(w).Encode(answer) //nolint:errcheck // the login notices
	}))
	t.Cleanup(s.Close)
	f = flowtest.New(t, kinds()...)
	f.Load("- kind: login\n  name: g\n  issuer: " + s.URL + "\n  url: http://127.0.0.1:1\n  client_id: shop\n  secret: an example of at least 32 bytes!\n  " + fields)
	return f, s.URL
}

// browse sends the request of a browser, and returns the answer.
func browse(t *testing.T, f *flowtest.Flow, path, query, cookies string) value.Value {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"method": "GET", "path": path, "query": q, "header": map[string]any{"Cookie": []string{cookies}}})
	if err != nil {
		t.Fatal(err)
	}
	resp := f.Send("g", flowtest.Parse(t, string(text)))
	if resp.IsError() {
		return value.String(show(resp))
	}
	return resp.Payload
}

// begin begins a login. It returns where the browser is sent, and its cookies.
func begin(t *testing.T, f *flowtest.Flow) (query url.Values, cookies string) {
	t.Helper()
	answer := browse(t, f, "/auth/login", "", "")
	header, _ := answer.Get("header")
	location, _ := header.Get("Location")
	to, _ := location.AsString()
	u, err := url.Parse(to)
	if err != nil || u.Path != "/authorize" {
		t.Fatalf("got %v, want that the browser is sent to the provider", answer)
	}
	lines, _ := header.Get("Set-Cookie")
	for _, line := range lines.Elems() {
		text, _ := line.AsString()
		text, _, _ = strings.Cut(text, ";")
		cookies += text + "; "
	}
	return u.Query(), strings.TrimSuffix(cookies, "; ")
}

// TestIssuerOfCallback has callbacks that do not say of which provider they are: a provider
// that announces that its do may have been mixed up with another.
func TestIssuerOfCallback(t *testing.T) {
	const mixed, passed = "the answer is of another provider", "the provider gives no tokens: invalid_grant"
	for _, announced := range []bool{false, true} {
		f, issuer := loginWith(t, map[string]any{"authorization_response_iss_parameter_supported": announced}, "")
		for iss, want := range map[string]string{
			"":                                    map[bool]string{false: passed, true: mixed}[announced],
			"&iss=" + url.QueryEscape(issuer):     passed,
			"&iss=":                               mixed,
			"&iss=" + url.QueryEscape(issuer+"/"): mixed,
		} {
			to, cookies := begin(t, f)
			got, _ := browse(t, f, "/auth/callback", "code=x&state="+to.Get("state")+iss, cookies).AsString()
			if !strings.Contains(got, want) {
				t.Errorf("announced %t, %q: got %s, want %s", announced, iss, got, want)
			}
		}
	}
}

// TestPrompt asks strict providers for consent where they need that for a refresh token.
func TestPrompt(t *testing.T) {
	for fields, want := range map[string][]string{
		"scopes: [profile]":                          nil,
		"scopes: [profile, offline_access]":          {"consent"},
		"scopes: [offline_access]\n  prompt: ''":     nil,
		"scopes: [offline_access]\n  prompt: login":  {"login"},
		"scopes: [profile]\n  prompt: login consent": {"login consent"},
	} {
		f, _ := loginWith(t, nil, fields)
		if to, _ := begin(t, f); strings.Join(to["prompt"], "|") != strings.Join(want, "|") || len(to["prompt"]) != len(want) {
			t.Errorf("%s: got the prompt %q, want %q", fields, to["prompt"], want)
		}
	}
}
