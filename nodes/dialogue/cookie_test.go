package dialogue

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/node/jsonschema"
	"github.com/uniflow-labs/uniflow/value"
)

func request(scheme, cookie string) value.Value {
	return value.Map(
		value.Field{Name: "scheme", Value: value.String(scheme)},
		value.Field{Name: "header", Value: value.Map(value.Field{Name: "Cookie", Value: value.List(value.String(cookie))})},
	)
}

// TestCookieAge renews a cookie in time, and gives HTTPS alone what is for it.
func TestCookieAge(t *testing.T) {
	k := &cookies{made: http.Cookie{Name: "c", Path: "/"}, auto: true, secrets: [][]byte{[]byte("0123456789abcdef")}, ttl: 10 * time.Hour}
	now := time.Unix(1_900_000_000, 0)
	f := func(at time.Time, scheme, cookie string) (key, set string) {
		t.Helper()
		var slot handover.Slot
		key, err := k.session(handover.With(t.Context(), &slot), request(scheme, cookie), at)
		if err != nil {
			t.Fatal(err)
		}
		h := make(http.Header)
		slot.AddTo(h)
		if cached := h.Get("Cache-Control") != "no-store"; cached == (h.Get("Set-Cookie") != "") {
			t.Errorf("got %v: an answer with a cookie must not be cached, any other may be", h)
		}
		return key, h.Get("Set-Cookie")
	}
	key, set := f(now, "https", "")
	if !strings.HasSuffix(set, "; Secure") {
		t.Errorf("by HTTPS: got %s", set)
	}
	cookie, _, _ := strings.Cut(set, ";")
	if again, set := f(now.Add(59*time.Minute), "http", cookie); again != key || set != "" {
		t.Errorf("soon: got %s and %q, want %s", again, set, key)
	}
	again, set := f(now.Add(61*time.Minute), "http", cookie)
	if again != key || set == "" || strings.Contains(set, "Secure") || strings.HasPrefix(set, cookie) {
		t.Errorf("after a tenth of the ttl: got %s and %q, want %s", again, set, key)
	}
	other := *k
	other.secrets = [][]byte{[]byte("0123456789abcdeg")}
	if _, _, ok := other.find(value.String(cookie)); ok {
		t.Error("a cookie of another secret was taken")
	}
	other.secrets = append(other.secrets, k.secrets[0])
	if _, _, ok := other.find(value.String(cookie)); !ok {
		t.Error("a cookie of the secret before was refused")
	}
	before := k
	k = &other
	k.ttl = 0
	if again, set := f(now, "http", cookie); again != key || set == "" || strings.HasPrefix(set, cookie) {
		t.Errorf("with the secret before: got %s and %q, want %s and a cookie of the new one", again, set, key)
	}
	k = before
	other = *k
	other.made.Name = "d"
	if _, _, ok := other.find(value.String(strings.Replace(cookie, "c=", "d=", 1))); ok {
		t.Error("a cookie of another name was taken")
	}
	if _, err := k.session(t.Context(), request("http", ""), now); err == nil {
		t.Error("a session has begun whose cookie cannot be set")
	}
	if _, err := k.session(t.Context(), value.Int(1), now); err == nil {
		t.Error("a payload without a header has a session")
	}
}

// FuzzCookie looks for a text that is taken without the signature.
func FuzzCookie(f *testing.F) {
	k := &cookies{made: http.Cookie{Name: "c"}, secrets: [][]byte{[]byte("0123456789abcdef")}}
	id := []byte("0123456789abcdef")
	good := k.cookie(id, time.Unix(7, 0), false)
	for _, seed := range []string{"", "c=", "c=AAAA", good, good + "; c=x", "c=\"" + strings.TrimPrefix(good, "c=") + "\"", "c==;c", ";;;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, stamp, ok := k.find(value.String(text))
		if ok && (!slices.Equal(got, id) || stamp.Unix() != 7) {
			t.Errorf("%q: took %x of %s", text, got, stamp)
		}
	})
}

// FuzzReply looks for a message that breaks what reads it.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{`"a"`, `{"text":"1"}`, `{"data":{"a":1}}`, `{"body":{"body":{"body":1}}}`, `{"body":"x"}`, `[1]`, `null`, `{"text":{},"data":null}`, `1e999`} {
		f.Add([]byte(seed))
	}
	s, err := newShape(value.Map(value.Field{Name: "type", Value: value.List(value.String("integer"), value.String("array"))}), jsonschema.Options{})
	if err != nil {
		f.Fatal(err)
	}
	choices := []choice{{"a", value.Int(1)}, {"b", value.Map()}}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := value.ParseJSON(data)
		if err != nil {
			return
		}
		r := replyOf(v)
		for _, q := range []*question{{}, {pick: true}, {shape: s}} {
			if answer, problem := q.fit(r, choices); problem == "" && q.pick && !answer.Equal(choices[0].data) && !answer.Equal(choices[1].data) {
				t.Errorf("%s: answer %s is not a choice", data, answer)
			}
		}
	})
}
