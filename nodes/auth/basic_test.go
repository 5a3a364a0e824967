package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/value"
)

func newTestBasic(t testing.TB) *basic {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("open sesame"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	u := &user{identity: identity{subject: "ann"}, hash: hash}
	return &basic{users: map[string]*user{"ann": u}, unknown: &user{hash: hash}, key: []byte("key"), seats: make(chan struct{}, 1)}
}

func header(name, text string) value.Value {
	return openapi.Object("header", openapi.Object(name, value.List(value.String(text))))
}

func basicRequest(name, password string, wait bool) *request {
	return &request{payload: header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(name+":"+password))), wait: wait}
}

// TestBasicRemembers checks a password that was right only once, and every wrong one.
func TestBasicRemembers(t *testing.T) {
	b := newTestBasic(t)
	f := func(name, password string, wait bool, want error) {
		t.Helper()
		if id, err := b.identify(t.Context(), basicRequest(name, password, wait)); !errors.Is(err, want) || err == nil && id.subject != "ann" {
			t.Errorf("%s %s: got %v %v, want %v", name, password, id, err, want)
		}
	}
	f("ann", "open sesame", false, errWaits)
	f("ann", "open sesame", true, nil)
	f("ann", "open sesame", false, nil)
	f("ann", "open seasame", false, errWaits)
	f("ann", "open seasame", true, errWrong)
	f("bob", "open sesame", true, errWrong)
	f("bob", "open sesame", false, errWaits) // a name that is not known takes as long
	f("ann", "open sesame", false, nil)
}

// TestBasicQueue has more passwords to check than there are seats.
func TestBasicQueue(t *testing.T) {
	b := newTestBasic(t)
	b.seats <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.identify(ctx, basicRequest("ann", "open sesame", true)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that a client that has left does not wait", err)
	}
	b.queue.Store(maxQueue)
	_, err := b.identify(t.Context(), basicRequest("ann", "open sesame", true))
	if e := node.Describe(err); e.Status != 503 || e.Code != "busy" || e.RetryAfter == 0 {
		t.Errorf("got %v, want that it is busy", err)
	}
	if got := b.queue.Load(); got != maxQueue {
		t.Errorf("got %d in the queue, want %d", got, maxQueue)
	}
}

// FuzzHeaders reads what clients may send.
func FuzzHeaders(f *testing.F) {
	f.Add("Basic YW5uOm9wZW4=")
	f.Add("t=1,v1=00,v1=zz,v0=")
	f.Add("v1,AAAA v1,  v2,")
	f.Add("login=\"a; login=b;;=;login")
	b := newTestBasic(f)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := b.identify(context.Background(), &request{payload: header("Authorization", text)}); err == nil {
			t.Errorf("%q is accepted", text)
		}
		for name, format := range presets() {
			s := &signatures{format: format, tolerance: time.Minute}
			s.format.hash = sha256.New
			s.secrets, s.senders = [][]byte{[]byte("a secret of the webhook")}, make([]identity, 1)
			payload := header(format.header, text).With("raw", value.Null())
			if _, err := s.identify(context.Background(), &request{payload: payload}); err == nil {
				t.Errorf("%s: %q is accepted", name, text)
			}
		}
		cookie(header("Cookie", text), "login")
		cookieNames(header("Cookie", text))
	})
}
