package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// TestSlowIssuer gives up on an issuer that does not answer, and never waits for it longer
// than for one attempt.
func TestSlowIssuer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	client := newClient(nil)
	client.Timeout = 20 * time.Millisecond
	m := &remote{clock: node.SystemClock{}}
	m.issuer = newIssuer(origin{issuer: s.URL}, client, m.clock, slog.New(slog.DiscardHandler))
	defer m.issuer.Close()
	_, err := m.keysFor(context.Background(), &request{wait: true}, &token{kid: "a"})
	if !errors.Is(err, errNoKeys) {
		t.Errorf("got %v, want that there are no keys", err)
	}
	if err := m.issuer.ready(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it has taken too long", err)
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
		if payload, err := t.verify(context.Background(), &request{}, token); err == nil {
			tt.Fatalf("%q is accepted: %q", text, payload)
		}
		if _, err := t.rules.identity(token.jws.UnsafePayloadWithoutVerification(), time.Unix(0, 0)); err != nil && !isRefusal(err) {
			tt.Fatalf("got %v, want a refusal", err)
		}
	})
}
