package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
)

// TestSlowIssuer gives up on an issuer that does not answer, and never waits for it longer
// than for one attempt.
func TestSlowIssuer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	client, err := newClient(field.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = 20 * time.Millisecond
	m := &remote{clock: node.SystemClock{}}
	m.issuer = newIssuer(origin{issuer: s.URL}, client, m.clock, slog.New(slog.DiscardHandler))
	defer m.issuer.Close()
	_, err = m.keysFor(context.Background(), &request{wait: true}, &token{kid: "a"})
	if !errors.Is(err, errNoKeys) {
		t.Errorf("got %v, want that there are no keys", err)
	}
	if err := m.issuer.ready(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it has taken too long", err)
	}
}

// TestSeenIsBounded remembers as many signatures as there is room for. Another one does not
// pass, and makes none of them be forgotten.
func TestSeenIsBounded(t *testing.T) {
	s := newSeen(10 * time.Minute)
	key := func(i int) [sha256.Size]byte { return [sha256.Size]byte{byte(i), byte(i >> 8), byte(i >> 16)} }
	now := time.Unix(1e9, 0)
	for i := range maxYoung {
		if err := s.add(key(i), now); err != nil {
			t.Fatalf("signature %d: %v", i, err)
		}
	}
	if err := node.Describe(s.add(key(maxYoung), now)); err.Status != http.StatusServiceUnavailable || err.RetryAfter <= 0 {
		t.Errorf("got %+v, want 503 and when to try again", err)
	}
	later := now.Add(10 * time.Minute)
	if err := s.add(key(maxYoung), later); err != nil {
		t.Errorf("in the next window: got %v", err)
	}
	if err := s.add(key(0), later); !errors.Is(err, errReplayed) {
		t.Errorf("one of the window before: got %v, want that it came before", err)
	}
	if got := len(s.mu.young) + len(s.mu.old); got > 2*maxYoung {
		t.Errorf("got %d signatures in memory", got)
	}
}

// FuzzParseToken has tokens of all sorts. None may be accepted that is not signed.
func FuzzParseToken(f *testing.F) {
	t := &tokens{rules: rules{audience: []string{"orders"}}}
	t.add(verifier{algorithms: algorithms, key: []byte("an example of at least 64 bytes, which is as long as HS512 needs it")})
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("eyJhbGciOiJIUzI1NiIsImNyaXQiOlsiYjY0Il0sImI2NCI6ZmFsc2V9.e30.AAAA")
	f.Add("eyJhbGciOiJIUzI1NiIsInR5cCI6NX0.eyJleHAiOjFlOTk5fQ.")
	f.Fuzz(func(tt *testing.T, text string) {
		token, err := parseToken(text, t.algorithms, nil)
		if err != nil {
			if !isRefusal(err) {
				tt.Fatalf("got %v, want a refusal", err)
			}
			return
		}
		if err := t.verify(context.Background(), &request{}, token); err == nil {
			tt.Fatalf("%q is accepted", text)
		}
		if _, err := t.rules.identity(token.claims, time.Unix(0, 0)); err != nil && !isRefusal(err) {
			tt.Fatalf("got %v, want a refusal", err)
		}
	})
}

// TestVectors has signatures that the senders publish.
func TestVectors(t *testing.T) {
	f := func(preset, secret, body, timestamp, id, want string) {
		t.Helper()
		f := presets()[preset]
		mac := hmac.New(sha256.New, []byte(secret))
		f.sign(mac, signing{timestamp: timestamp, id: id}, []byte(body))
		if got, err := f.decode(want); err != nil || !hmac.Equal(got, mac.Sum(nil)) {
			t.Errorf("%s: got another signature than %s", preset, want)
		}
	}
	f("github", "It's a Secret to Everybody", "Hello, World!", "", "", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	f("slack", "8f742231b10e8888abcd99yyyzzz85a5", "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
		"1531420618", "", "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503")
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	f("standard", string(secret), `{"test": 2432232314}`, "1614265330", "msg_p5jXN8AQM9LWM0D4loKWxJek", "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
}

func TestReleaseAll(t *testing.T) {
	first, released := errors.New("first"), 0
	release := func(err error) verifier {
		return verifier{remote: &remote{release: func() error { released++; return err }}}
	}
	if err := releaseAll([]verifier{release(first), {}, release(nil)}); !errors.Is(err, first) || released != 2 {
		t.Errorf("got error %v and %d released, want %v and 2", err, released, first)
	}
}
