package redact

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestText(t *testing.T) {
	const secret = "p&ss \"w<rd\"/ü"
	var s Secrets
	if got := s.Text(secret); got != secret {
		t.Errorf("got %q, want nothing hidden before anything was learned", got)
	}
	s.Learn([]string{secret, "abc", "", "line one\nline two\n-----BEGIN-----", "postgres://app:s3cr%2Ft@db/x", "app:mysqlpw@tcp(db)/x", "host=db password='kvword' x=1", "Bearer t0k3n"})
	f := func(text, want string) {
		t.Helper()
		if got := s.Text(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("", "")
	f("nothing", "nothing")
	f("abc", Hidden)
	f("abcd", "abcd")
	f("<"+secret+">", "<"+Hidden+">")
	f(fmt.Sprintf("%q", secret), `"`+Hidden+`"`)
	f("a="+url.QueryEscape(secret)+"&", "a="+Hidden+"&")
	f("/"+url.PathEscape(secret)+"/", "/"+Hidden+"/")
	f(fmt.Sprintf("%x", secret), Hidden)
	f(fmt.Sprint([]byte(secret)), "["+Hidden+"]")
	f(strings.ToUpper(secret), Hidden)
	f("-----BEGIN-----", "-----BEGIN-----")
	f("at line two", "at "+Hidden)
	f("password s3cr/t of app", "password "+Hidden+" of app")
	f("mysqlpw, kvword, t0k3n", Hidden+", "+Hidden+", "+Hidden)
	for i := range 5 {
		text := strings.Repeat("u", i) + ":" + secret + "!"
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			if got := s.Text(e.EncodeToString([]byte(text))); !strings.Contains(got, Hidden) || len(got) > len(Hidden)+2*i+8 {
				t.Errorf("%d: got %s, want it hidden", i, got)
			}
		}
	}
}

// TestWords hides secrets that are words: as values always, in messages of the program where they are quoted.
func TestWords(t *testing.T) {
	var s Secrets
	s.Learn([]string{"short", "Password", "ab12", "correcthorse", "host=db password=secret"})
	f := func(text, message, value string) {
		t.Helper()
		if got := s.Text(text); got != message {
			t.Errorf("message %q: got %q, want %q", text, got, message)
		}
		if got := s.Plain(text); got != value {
			t.Errorf("value %q: got %q, want %q", text, got, value)
		}
	}
	f("the secret is too short", "the secret is too short", "the [redacted] is too [redacted]")
	f("too short: want (short), or short.", "too short: want (short), or short.", "too [redacted]: want ([redacted]), or [redacted].")
	f("the password of a user", "the password of a user", "the [redacted] of a user")
	f("short", Hidden, Hidden)
	for _, quoted := range []string{`"%s"`, "'%s'", "`%s`", "a=%s", "a=%s&b", "//u:%s@h", "/%s/", "[%s]", "{%s}", "	%s", "%s=1", `"%s"`, "<%s>", "u:%s"} {
		text, want := fmt.Sprintf(quoted, "short"), fmt.Sprintf(quoted, Hidden)
		f("it has "+text+" there", "it has "+want+" there", "it has "+want+" there")
	}
	f(`"SHORT" and shorten`, `"[redacted]" and shorten`, `"[redacted]" and shorten`)
	f(fmt.Sprintf("%x", "u:short"), "753a"+Hidden, "753a"+Hidden) // encoded, it is not a word

	// Alone behind a colon or an equals sign it is a value; the first word of a sentence there is not.
	for _, mark := range []string{"token:", "token =", "a: b:"} {
		f(mark+" short", mark+" "+Hidden, mark+" "+Hidden)
		f(mark+" short, and", mark+" "+Hidden+", and", mark+" "+Hidden+", and")
	}
	f("config: short texts", "config: short texts", "config: "+Hidden+" texts")

	// The letters of an escape are not part of the word behind it.
	for _, escape := range []string{"%3D", "%3d", "%20", `\n`, `\t`, `\u0026`, `\u003d`, `\x3D`} {
		f("it has a"+escape+"short there", "it has a"+escape+Hidden+" there", "it has a"+escape+Hidden+" there")
		f("it has a"+escape+"ab12", "it has a"+escape+Hidden, "it has a"+escape+Hidden)
	}

	// Not a word of the program: hidden everywhere, and a very short one where it is a word.
	f("no correcthorse, xcorrecthorsey", "no [redacted], x[redacted]y", "no [redacted], x[redacted]y")
	f("no ab12, xab12", "no [redacted], xab12", "no [redacted], xab12")
}

// TestManyWords takes time for the length of a text, and not for its square.
func TestManyWords(t *testing.T) {
	var s Secrets
	s.Learn([]string{"ab12"})
	const times = 1 << 20
	if got := s.Plain(strings.Repeat("ab12 ", times)); got != strings.Repeat(Hidden+" ", times) {
		t.Errorf("got %d bytes, want each word hidden", len(got))
	}
}

// TestLearn keeps the secrets of the last sources.
func TestLearn(t *testing.T) {
	var s Secrets
	for i := range sources + 1 {
		s.Learn([]string{fmt.Sprintf("secret-%03d", i)})
		s.Learn([]string{"secret-old"})
	}
	for text, want := range map[string]string{"secret-064": Hidden, "secret-000": "secret-000", "secret-old": Hidden} {
		if got := s.Text(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestError(t *testing.T) {
	var s Secrets
	s.Learn([]string{"hunter2"})
	plain := errors.New("plain")
	if got := s.Error(plain); got != plain {
		t.Errorf("got %v, want it as it was", got)
	}
	got := s.Error(fmt.Errorf("with hunter2: %w", context.Canceled))
	if got.Error() != "with [redacted]: context canceled" || !errors.Is(got, context.Canceled) || errors.Unwrap(got) != nil {
		t.Errorf("got %v", got)
	}
	list := s.Findings(diag.List{diag.Errorf(diag.CodeBadValue, "has %w", errors.New("hunter2")).WithHint("not hunter2")})
	if text := fmt.Sprint(list, list[0].Hint, list[0].Err); strings.Contains(text, "hunter2") {
		t.Errorf("got %s", text)
	}
	v := s.Value(value.Map(value.Field{Name: "hunter2", Value: value.List(value.String("hunter2"), value.Int(1), value.Error(errors.New("hunter2")), value.Binary([]byte("hunter2")))}))
	if text := v.String(); strings.Contains(text, "hunter2") {
		t.Errorf("got %s", text)
	}
}

func TestHandler(t *testing.T) {
	var s Secrets
	s.Learn([]string{"hunter2", "42", "4711"})
	var b bytes.Buffer
	log := slog.New(s.Handler(slog.NewJSONHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	s.Learn([]string{"node", "short"})
	log.With("w", "a hunter2").WithGroup("g").Info("m hunter2", "k", "hunter2", "e", errors.New("hunter2"), "n", 42, "i", int64(4711), "l", []string{"hunter2"},
		slog.Group("x", "y", "hunter2"), "s", struct{ A string }{"hunter2"}, "v", valuer{}, "node", "node", "path", "/a short one", "error", errors.New("it is short: \"short\""))
	want := `{"level":"INFO","msg":"m [redacted]","w":"a [redacted]","g":{"k":"[redacted]","e":"[redacted]","n":42,"i":"[redacted]","l":"[[redacted]]","x":{"y":"[redacted]"},"s":"{A:[redacted]}","v":"[redacted]","node":"[redacted]","path":"/a [redacted] one","error":"it is short: \"[redacted]\""}}` + "\n"
	if got := b.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

type valuer struct{}

func (valuer) LogValue() slog.Value { return slog.StringValue("hunter2") }

func BenchmarkText(b *testing.B) {
	var s Secrets
	s.Learn([]string{"hunter2", "another secret"})
	b.ReportAllocs()
	for b.Loop() {
		s.Text("the request was answered with an error of the database that has nothing to hide")
	}
}
