package field_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// read reads a config of JSON with one field.
func read(t *testing.T, f *schema.Field, config string) (schema.Config, error) {
	t.Helper()
	v, err := value.ParseJSON([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, found := schema.Fields(f).Decode(schema.RawOf(v))
	return c, found.Err()
}

func TestBackoff(t *testing.T) {
	b := field.Backoff{Initial: 100 * time.Millisecond, Factor: 3, Max: time.Second}
	for failed, want := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 300 * time.Millisecond, 3: 900 * time.Millisecond, 4: time.Second, math.MaxInt: time.Second} {
		if got := b.Wait(failed); got != want {
			t.Errorf("after %d failures: got %v, want %v", failed, got, want)
		}
	}
	if got := (field.Backoff{Factor: 1000, Max: time.Second}).Wait(1 << 40); got != 0 {
		t.Errorf("without a first wait: got %v, want 0", got)
	}
	b.Jitter = 0.5
	for range 1000 {
		if got := b.Wait(1); got < 50*time.Millisecond || got > 100*time.Millisecond {
			t.Fatalf("with half of chance: got %v, want 50ms to 100ms", got)
		}
	}
	if got, ok := b.After(1, 700*time.Millisecond); got != 700*time.Millisecond || !ok {
		t.Errorf("asked for 700ms: got %v, %t", got, ok)
	}
	if _, ok := b.After(1, 2*time.Second); ok {
		t.Error("asked for more than the longest wait: got ok")
	}
}

func TestBackoffField(t *testing.T) {
	defaults := field.Backoff{Initial: time.Second, Factor: 2, Max: time.Minute, Jitter: 0.5}
	for config, want := range map[string]field.Backoff{
		`{}`:                            defaults,
		`{"backoff":{"initial":"1ms"}}`: {Initial: time.Millisecond, Factor: 2, Max: time.Minute, Jitter: 0.5},
		`{"backoff":{"initial":"1h"}}`:  {Initial: time.Hour, Factor: 2, Max: time.Hour, Jitter: 0.5},
		`{"backoff":{"max":"1ms"}}`:     {Initial: time.Millisecond, Factor: 2, Max: time.Millisecond, Jitter: 0.5},
		`{"backoff":{"initial":"1h","max":"1h","factor":1,"jitter":0}}`: {Initial: time.Hour, Factor: 1, Max: time.Hour},
	} {
		c, err := read(t, field.NewBackoff(defaults, "Doc.", "Longest."), config)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := field.BackoffOf(c); got != want || err != nil {
			t.Errorf("%s: got %+v, %v, want %+v", config, got, err, want)
		}
	}
	c, err := read(t, field.NewBackoff(defaults, "Doc.", "Longest."), `{"backoff":{"initial":"1h","max":"1s"}}`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = field.BackoffOf(c)
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Path != c.Group("backoff").Path("initial") || d.Hint == "" {
		t.Errorf("a first wait that is longer than the longest: got %v, want an error at initial", err)
	}
}

func TestExpressions(t *testing.T) {
	o := field.Options{Languages: builtin.Languages(), Language: "cel"}
	key := schema.Expr("key").Default("self.id")
	for config, want := range map[string]string{
		`{}`:                       "cel",
		`{"language":"json"}`:      "json",
		`{"language":"js"}`:        `unknown language "js"`,
		`{"language":""}`:          `unknown language ""`,
		`{"language":"no such x"}`: `unknown language "no such x"`,
	} {
		c, err := read(t, o.NewLanguage("Doc."), config)
		if err != nil {
			t.Fatal(err)
		}
		got, err := o.LanguageOf(c)
		var d *diag.Diagnostic
		if errors.As(err, &d) {
			if got = d.Msg; d.Path != c.Path("language") {
				t.Errorf("%s: got an error at %q", config, d.Path)
			}
		}
		if got != want {
			t.Errorf("%s: got %q, %v, want %q", config, got, err, want)
		}
	}
	for _, f := range []struct {
		field  *schema.Field
		config string
		set    bool
	}{{schema.Expr("key"), `{}`, false}, {schema.Expr("key"), `{"key":"self.user"}`, true}, {key, `{}`, true}} {
		c, err := read(t, f.field, f.config)
		if err != nil {
			t.Fatal(err)
		}
		p, err := o.Expr(c, "key", lang.Options{})
		if err != nil || (p != nil) != f.set {
			t.Errorf("%s: got %v, %v, want an expression: %t", f.config, p, err, f.set)
		}
		if _, err := (field.Options{}).Expr(c, "key", lang.Options{}); (err != nil) != f.set {
			t.Errorf("%s: without languages: got %v, want an error: %t", f.config, err, f.set)
		}
	}
}

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://[::1":           "not a URL",
		"hunter2":               "want a URL of http or https",
		"ftp://hunter2":         "want a URL of http or https",
		"https:///hunter2":      "the URL has no host",
		"https://a:hunter2@b":   "a URL must not contain credentials",
		"https://a#hunter2":     "a URL of a service has no fragment",
		"https://a:1/b?hunter2": "",
	} {
		u, err := field.ParseURL(text, "http", "https")
		if got := ""; err != nil {
			if got = err.Error(); got != want || strings.Contains(got, "hunter2") {
				t.Errorf("%s: got %q, want %q", text, got, want)
			}
		} else if want != "" || u.Host != "a:1" {
			t.Errorf("%s: got %v, want %q", text, u, want)
		}
		if _, err := field.ParseURL(text, "http", "https"); errors.Is(err, field.ErrCredentials) != strings.Contains(text, "@") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestTLS(t *testing.T) {
	for config, want := range map[string]string{
		`{"tls":{"cert":"x"}}`:                                           "needs both cert and key",
		`{"tls":{"ca":"-----BEGIN hunter2"}}`:                            "no certificate in PEM form",
		`{"tls":{"cert":"-----BEGIN x","key":"-----BEGIN hunter2"}}`:     "certificate and key",
		`{"tls":{"cert":"/no/such","key":"/no/such","ca":"/no/such"}}`:   "", // files are read later
		`{"tls":{"server_name":"db.example.com","skip_verify":true}}`:    "",
		`{"tls":{"cert":"-----BEGIN x","key":"/no/such","ca":"/no/ca"}}`: "",
	} {
		c, err := read(t, field.NewTLS("Doc."), config)
		if err != nil {
			t.Fatal(err)
		}
		tls, err := field.TLSOf(c)
		var d *diag.Diagnostic
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) || strings.Contains(got, "hunter2") || !errors.As(err, &d) {
				t.Errorf("%s: got %q, want %q at its field", config, got, want)
			}
		} else if want != "" {
			t.Errorf("%s: got %+v, want %q", config, tls, want)
		}
	}
	var refused *field.RefusedError
	if _, err := (field.TLS{CA: "/no/such/file"}).Load(); !errors.As(err, &refused) || refused.Field != "tls.ca" {
		t.Errorf("got %v, want a refusal of tls.ca", err)
	}
}
