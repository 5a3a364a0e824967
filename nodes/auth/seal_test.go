package auth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func newTestSealer(t testing.TB, secret, about string, secure bool) *sealer {
	t.Helper()
	s, err := newSealer([]string{secret}, about, "login", secure)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSeal has cookies that were changed, renamed, or made by others.
func TestSeal(t *testing.T) {
	s := newTestSealer(t, "an example of at least 32 bytes!", "a", true)
	line, err := s.seal("", session{Subject: "ann"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c, err := http.ParseSetCookie(line)
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "__Host-login" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 3600 {
		t.Errorf("got %s, want a cookie of this host alone", line)
	}
	f := func(what string, s *sealer, suffix, text string, want bool) {
		t.Helper()
		var got session
		if ok := s.open(suffix, text, &got); ok != want || ok && got.Subject != "ann" {
			t.Errorf("%s: got %t %v, want %t", what, ok, got, want)
		}
	}
	f("as it is", s, "", c.Value, true)
	f("another name", s, "-tries", c.Value, false)
	f("another node", newTestSealer(t, "an example of at least 32 bytes!", "b", true), "", c.Value, false)
	f("another secret", newTestSealer(t, "another example of 32 bytes, too", "a", true), "", c.Value, false)
	f("over http", newTestSealer(t, "an example of at least 32 bytes!", "a", false), "", c.Value, false)
	f("empty", s, "", "", false)
	for i := range len(c.Value) {
		changed := []byte(c.Value)
		changed[i] ^= 4
		f("changed", s, "", string(changed), false)
	}
	again, err := s.seal("", session{Subject: "ann"}, time.Hour)
	if err != nil || again == line {
		t.Errorf("got %s %v twice, want another cookie each time", again, err)
	}
	if _, err := s.seal("", session{Subject: strings.Repeat("a", maxCookie)}, time.Hour); err == nil {
		t.Error("got a cookie that browsers do not take, want an error")
	}
}

// TestSecrets has cookies of a secret that is being changed for another one.
func TestSecrets(t *testing.T) {
	const first, second = "an example of at least 32 bytes!", "another example of 32 bytes, too"
	of := func(secrets ...string) *sealer {
		s, err := newSealer(secrets, "a", "login", false)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	f := func(made, read *sealer, want bool) {
		t.Helper()
		line, err := made.seal("", session{Subject: "ann"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		c, err := http.ParseSetCookie(line)
		if err != nil {
			t.Fatal(err)
		}
		var got session
		if ok := read.open("", c.Value, &got); ok != want || ok && got.Subject != "ann" {
			t.Errorf("got %t %v, want %t", ok, got, want)
		}
	}
	f(of(first), of(second, first), true)
	f(of(second, first), of(second), true)
	f(of(second, first), of(first), false)
	f(of(first), of(second), false)
}

// TestEnded ends sessions that were begun before a time.
func TestEnded(t *testing.T) {
	e := ended{"": 100, "ann": 200, "bob": 50}
	f := func(subject string, begun int64, want bool) {
		t.Helper()
		if got := e.has(&session{Subject: subject, Begun: begun}); got != want {
			t.Errorf("%s at %d: got %t, want %t", subject, begun, got, want)
		}
	}
	f("eve", 0, true)
	f("eve", 99, true)
	f("eve", 100, false)
	f("ann", 199, true)
	f("ann", 200, false)
	f("bob", 50, true)
	f("bob", 100, false)
	if (ended)(nil).has(&session{}) {
		t.Error("a session has ended by itself")
	}
}

// FuzzLocal looks for a target that leads to another site.
func FuzzLocal(f *testing.F) {
	for _, target := range []string{"/", "/a?b=c", "//evil.example", `/\evil.example`, "https://evil.example", "/%2f/evil.example", "/%5cevil.example", "/\n/evil.example", "javascript:alert(1)", "/a\x00b", "/..//evil.example"} {
		f.Add(target)
	}
	here, err := url.Parse("https://shop.example.com/auth/callback")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target string) {
		got := local(target)
		// Browsers take a backslash for a slash, and leave tabs and line ends out.
		browser := strings.NewReplacer("\\", "/", "\t", "", "\r", "", "\n", "").Replace(got)
		u, err := here.Parse(browser)
		if err != nil || u.Scheme != "https" || u.Host != "shop.example.com" || u.User != nil || strings.HasPrefix(browser, "//") {
			t.Errorf("%q becomes %q, which leads to %v, %v", target, got, u, err)
		}
	})
}

// TestRenewals are bounded, and forgotten after a time.
func TestRenewals(t *testing.T) {
	var r renewals
	now := time.Unix(0, 0)
	for i := range maxRenewals {
		if _, mine := r.enter([32]byte{byte(i), byte(i >> 8)}, now); !mine {
			t.Fatalf("renewal %d is not new", i)
		}
	}
	if one, _ := r.enter([32]byte{31: 1}, now); one != nil {
		t.Error("got one more than there is room for")
	}
	if one, mine := r.enter([32]byte{1}, now); one == nil || mine {
		t.Error("got another renewal of the same cookie")
	}
	if _, mine := r.enter([32]byte{31: 1}, now.Add(renewalLasts)); !mine || len(r.mu.all) != 1 {
		t.Errorf("got %d renewals, want that old ones are forgotten", len(r.mu.all))
	}
}
