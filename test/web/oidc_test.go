package web_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// TestLogin logs in at a real provider, and out again.
func TestLogin(t *testing.T) {
	s := newSite(t, "")
	b := s.browser()
	status, body := s.login(b, "/orders/a%2Fb?q=1&q=ä")
	for _, want := range []string{`"who":"id1"`, `"email":"test-user@zitadel.ch"`, `"name":"Test User"`, `"path":"/orders/a/b"`, `"q":["1","ä"]`} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("got %d %s, want %s", status, body, want)
		}
	}
	if last := b.trail[len(b.trail)-1]; last != "/orders/a%2Fb" {
		t.Errorf("got back to %s, want where it began", last)
	}
	if status, body, _ = b.get(s.url + "/"); status != 200 || len(b.trail) != 0 {
		t.Errorf("got %d %s by %v, want that the session lasts", status, body, b.trail)
	}

	// Another generation, and another engine with the same secret, know the session.
	s.document += "- {kind: nop, name: more}\n"
	s.apply()
	if status, body, _ = b.get(s.url + "/"); status != 200 || len(b.trail) != 0 {
		t.Errorf("got %d %s by %v, want that the session lasts", status, body, b.trail)
	}

	// Others cannot do much with it.
	at, _ := url.Parse(s.url)
	for _, c := range b.Jar.Cookies(at) {
		if strings.Contains(c.Value, "id1") || c.Name == "login" && len(c.Value) < 100 {
			t.Errorf("the cookie %s is not encrypted: %s", c.Name, c.Value)
		}
	}
	post := func(header ...string) int {
		r, err := http.NewRequest(http.MethodPost, s.url+"/orders", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		status, _, _ := b.do(r, header...)
		return status
	}
	if got := post("Sec-Fetch-Site", "cross-site"); got != 403 {
		t.Errorf("a request that another site has caused: got %d, want 403", got)
	}
	if got := post("Origin", "https://evil.example"); got != 403 {
		t.Errorf("a request of another origin: got %d, want 403", got)
	}
	if got := post("Origin", s.url, "Sec-Fetch-Site", "same-origin"); got != 200 {
		t.Errorf("a request of its own: got %d, want 200", got)
	}

	var asked url.Values
	follow := b.CheckRedirect
	b.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if asked == nil {
			asked = r.URL.Query()
		}
		return follow(r, via)
	}
	status, body, _ = b.get(s.url + "/auth/logout")
	if len(b.trail) == 0 || !strings.Contains(b.trail[0], "end_session") {
		t.Errorf("got %d %s by %v, want the page of the provider", status, body, b.trail)
	}
	if !strings.HasPrefix(asked.Get("client_id"), "shop-") || asked.Get("post_logout_redirect_uri") != s.url+"/" {
		t.Errorf("the provider was asked with %v, want who asks, and where to come back to", asked)
	}
	if status, body, _ = b.get(s.url + "/"); !strings.Contains(body, "username") {
		t.Errorf("got %d %s, want that the session has ended", status, body)
	}
}

// TestWithoutSession has clients that are not sent to the provider.
func TestWithoutSession(t *testing.T) {
	s := newSite(t, "")
	b := s.browser()
	f := func(method, path string, want int, header ...string) {
		t.Helper()
		r, err := http.NewRequest(method, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		status, body, resp := b.do(r, header...)
		if status != want || len(b.trail) > 0 {
			t.Errorf("%s %s: got %d %s by %v, want %d", method, path, status, body, b.trail, want)
		}
		if status == 401 && resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: there is no WWW-Authenticate", method, path)
		}
		if status == 405 && resp.Header.Get("Allow") == "" {
			t.Errorf("%s %s: there is no Allow", method, path)
		}
	}
	f("GET", "/", 401, "Accept", "application/json")
	f("GET", "/", 401, "Accept", "text/html", "Sec-Fetch-Mode", "cors")
	f("POST", "/", 401, "Accept", "text/html")
	f("GET", "/", 401, "Accept", "*/*", "Cookie", "login=abc")
	f("GET", "/auth/callback", 403, "Accept", "text/html")
	f("GET", "/auth/callback?code=abc&state=0123456789", 403, "Accept", "text/html")
	f("GET", "/auth/callback?code=abc&state=0123456789", 403, "Cookie", "login-01234567=AAAA")
	f("PUT", "/auth/login", 405)
	f("GET", "/auth/logout", 403, "Sec-Fetch-Site", "cross-site")
}

// TestForgedCallback has answers that do not belong to the login that was begun.
func TestForgedCallback(t *testing.T) {
	s := newSite(t, "")
	b := s.browser()
	stop := b.CheckRedirect
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, _, resp := b.get(s.url + "/")
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	q := to.Query()
	if q.Get("code_challenge_method") != "S256" || len(q.Get("nonce")) < 40 || len(q.Get("state")) < 40 || q.Get("redirect_uri") != s.url+"/auth/callback" {
		t.Errorf("got %s, want PKCE, a nonce and a state", to)
	}
	b.CheckRedirect = stop
	back := s.url + "/auth/callback?state=" + q.Get("state")
	f := func(query, want string) {
		t.Helper()
		if status, body, _ := b.get(back + query); status != 403 || !strings.Contains(body, want) {
			t.Errorf("%s: got %d %s, want %s", query, status, body, want)
		}
	}
	f("&code=stolen", "the provider gives no tokens")
	f("&code=stolen&iss=https://evil.example", "another provider")
	f("&error=access_denied", "the provider has refused the login: access_denied")
	f("&error=%3Cscript%3E", "for a reason that it does not say")
	f("x&code=stolen", "the login was not begun in this browser")
	s.clock.ahead.Add(int64(11 * time.Minute))
	f("&code=stolen", "the login was not begun in this browser")
}

// TestReturn goes back to this site only.
func TestReturn(t *testing.T) {
	s := newSite(t, "")
	for _, target := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "/\t/evil.example", "javascript:alert(1)", "http:///evil.example"} {
		status, body := s.login(s.browser(), "/auth/login?return_to="+url.QueryEscape(target))
		if status != 200 || !strings.Contains(body, `"path":"/"`) {
			t.Errorf("%s: got %d %s, want the first page", target, status, body)
		}
	}
}

// TestLoop has a browser that loses the session, and a provider that remembers who it is.
func TestLoop(t *testing.T) {
	s := newSite(t, "")
	b := s.browser()
	s.login(b, "/")
	at, _ := url.Parse(s.url)
	for i := range 20 {
		b.Jar.SetCookies(at, []*http.Cookie{{Name: "login", Path: "/", MaxAge: -1}})
		status, body, resp := b.get(s.url + "/")
		if status == 403 {
			if !strings.Contains(body, "the browser does not keep the cookie login") || resp.Header.Get("Retry-After") == "" {
				t.Errorf("got %s, want why", body)
			}
			if i < 8 {
				t.Errorf("it ends after %d logins, want 10", i+1)
			}
			s.clock.ahead.Add(int64(time.Minute))
			if status, body, _ := b.get(s.url + "/"); status != 200 {
				t.Errorf("a minute later: got %d %s, want the provider", status, body)
			}
			return
		}
	}
	t.Error("the loop does not end")
}

// TestRenew renews a session when its access token has expired.
func TestRenew(t *testing.T) {
	s := newSite(t, "")
	b := s.browser()
	if status, body := s.login(b, "/"); status != 200 {
		t.Fatalf("got %d %s, want a session", status, body)
	}
	asked := s.tokens.Load()
	s.clock.ahead.Add(int64(6 * time.Minute))
	var all sync.WaitGroup
	for range 10 { // all with the same cookie, whose refresh token is good for once
		all.Go(func() {
			r, err := http.NewRequest(http.MethodGet, s.url+"/", nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := b.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("got %d, want that the session is renewed", resp.StatusCode)
			}
		})
	}
	all.Wait()
	if got := s.tokens.Load() - asked; got != 1 {
		t.Errorf("the provider was asked %d times, want 1", got)
	}
	s.clock.ahead.Add(int64(6 * time.Minute))
	if status, body, _ := b.get(s.url + "/"); status != 200 || len(b.trail) != 0 {
		t.Errorf("got %d %s by %v, want that the session is renewed again", status, body, b.trail)
	}

	s.down.Store(true)
	s.clock.ahead.Add(int64(6 * time.Minute))
	if status, body, resp := b.get(s.url + "/"); status != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503", status, body)
	}
	s.down.Store(false)
	s.clock.ahead.Add(int64(time.Minute))
	if status, body, _ := b.get(s.url + "/"); status != 200 || len(b.trail) != 0 {
		t.Errorf("got %d %s by %v, want that the session has survived", status, body, b.trail)
	}
	s.clock.ahead.Add(int64(13 * time.Hour))
	if status, body, _ := b.get(s.url + "/"); len(b.trail) == 0 {
		t.Errorf("got %d %s, want that the session has ended", status, body)
	}
}

// TestChangedSecret changes the secret of the cookies in three steps, in which sessions last.
func TestChangedSecret(t *testing.T) {
	s := newSite(t, "")
	b := s.browser()
	s.login(b, "/")
	const other = "another example of at least 32 bytes"
	f := func(secrets string, lasts bool) {
		t.Helper()
		_, rest, _ := strings.Cut(s.document, "\n  secret: ")
		old, _, _ := strings.Cut(rest, "\n")
		s.document = strings.Replace(s.document, "\n  secret: "+old, "\n  secret: "+secrets, 1)
		s.apply()
		if status, body, _ := b.get(s.url + "/"); lasts != (status == 200 && len(b.trail) == 0) {
			t.Errorf("%s: got %d %s by %v, want that the session lasts: %t", secrets, status, body, b.trail, lasts)
		}
	}
	f("["+cookieSecret+", "+other+"]", true)
	f("["+other+", "+cookieSecret+"]", true)
	f(other, false)
	s.login(b, "/")
	f("["+cookieSecret+", "+other+"]", true)
	if strings.Contains(s.log.String(), other) {
		t.Error("the log has the other secret")
	}
}

// TestEnded ends sessions from the server: the sessions of one person, then all.
func TestEnded(t *testing.T) {
	s := newSite(t, "")
	b := s.browser()
	s.login(b, "/")
	before := s.document
	f := func(ended string, lasts bool) {
		t.Helper()
		s.document = strings.Replace(before, "  scopes:", "  ended: "+ended+"\n  scopes:", 1)
		s.apply()
		if status, body, _ := b.get(s.url + "/"); lasts != (status == 200 && len(b.trail) == 0) {
			t.Errorf("%s: got %d %s by %v, want that the session lasts: %t", ended, status, body, b.trail, lasts)
		}
	}
	s.clock.ahead.Add(int64(time.Minute))
	now := s.clock.Now().UTC().Format(time.RFC3339)
	f("[{before: 2026-01-31T12:00:00+01:00}]", true)
	f("[{before: "+now+", subject: id2}]", true)
	f("[{before: "+now+", subject: id1}, {before: "+now+", subject: id2}]", false)
	if status, body := s.login(b, "/"); status != 200 || !strings.Contains(body, "id1") {
		t.Errorf("got %d %s, want that another session begins", status, body)
	}
	f("{before: "+now+", subject: id1}", true)
	s.clock.ahead.Add(int64(time.Minute))
	f("{before: "+s.clock.Now().UTC().Format(time.RFC3339)+"}", false)
}

// TestOptional lets requests without a session pass.
func TestOptional(t *testing.T) {
	s := newSite(t, "required: false")
	b := s.browser()
	if status, body, _ := b.get(s.url + "/"); status != 200 || body != "nobody" {
		t.Errorf("got %d %s, want that it passes", status, body)
	}
	if status, body := s.login(b, "/auth/login?return_to=/orders"); status != 200 || !strings.Contains(body, `"path":"/orders"`) {
		t.Errorf("got %d %s, want a session", status, body)
	}
}

// TestProviderDown takes the provider away, and reloads.
func TestProviderDown(t *testing.T) {
	s := newSite(t, "")
	b := s.browser()
	if status, body, _ := b.get(s.url + "/"); status != 200 {
		t.Fatalf("got %d %s, want the provider", status, body)
	}
	s.down.Store(true)
	s.document = strings.ReplaceAll(s.document, "name: door", "name: gate")
	s.apply()
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, body, _ := b.get(s.url + "/"); status != 302 {
		t.Errorf("got %d %s, want that what was read of the provider is kept", status, body)
	}
}

// TestBearer sends a token of a real issuer to auth.
func TestBearer(t *testing.T) {
	s := newSite(t, "")
	client := regexp.MustCompile(`client_id: (\S+)`).FindStringSubmatch(s.document)[1]
	config := oauth2.Config{
		ClientID: client, ClientSecret: clientSecret, RedirectURL: s.url + "/auth/callback", Scopes: []string{"openid"},
		Endpoint: oauth2.Endpoint{AuthURL: s.provider.URL + "/auth", TokenURL: s.provider.URL + "/oauth/token"},
	}
	b := s.browser()
	verifier := oauth2.GenerateVerifier()
	_, body, resp := b.get(config.AuthCodeURL("a state", oauth2.S256ChallengeOption(verifier)))
	found := hidden.FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("got %s, want the page of the provider", body)
	}
	var code string
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if code = r.URL.Query().Get("code"); code != "" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	form := url.Values{"id": {found[1]}, "username": {"test-user@127.0.0.1"}, "password": {password}}
	r, err := http.NewRequest(http.MethodPost, resp.Request.URL.String(), strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	b.do(r, "Content-Type", "application/x-www-form-urlencoded")
	token, err := config.Exchange(context.WithValue(context.Background(), oauth2.HTTPClient, b.Client), code, oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	id, _ := token.Extra("id_token").(string)

	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
	document := `
- {kind: listener, name: web, protocol: http, host: 127.0.0.1, port: %s, ports: {out: [{name: guard, port: in}]}}
- {kind: auth, name: guard, any: {type: oidc, issuer: '%s', audience: %s}, ports: {out: [{name: who, port: in}]}}
- {kind: snippet, name: who, language: cel, code: auth.subject}
`
	f := func(audience, token string, want string) {
		t.Helper()
		s.document = fmt.Sprintf(document, port, s.provider.URL, audience)
		s.apply()
		if status, body, _ := b.get(s.url+"/", "Authorization", "Bearer "+token); fmt.Sprint(status, " ", body) != want {
			t.Errorf("got %d %s, want %s", status, body, want)
		}
	}
	f(client, id, "200 id1")
	f("another", id, "401 the token is for another audience")
	f(client, id[:len(id)-8]+"AAAAAAAA", "401 the signature of the token is wrong")
	f(client, token.AccessToken, "401 the token is malformed") // this issuer's are not tokens of JSON
	s.clock.ahead.Add(int64(2 * time.Hour))
	f(client, id, "401 the token has expired")
}
