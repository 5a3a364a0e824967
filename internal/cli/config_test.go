package cli

import (
	"fmt"
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		c, list := parseConfig("conf/u.yaml", []byte(text))
		got := fmt.Sprint(c.values)
		if len(list) > 0 {
			got = list.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	f("", "map[]")
	f("# nothing\n", "map[]")
	f("null", "map[]")
	f("from-specs: a.yaml", "map[from-specs:[conf/a.yaml]]")
	f("from-specs: [a.yaml, /b, '-']", "map[from-specs:[conf/a.yaml /b -]]")
	f("environment: {A: 1, B: two, C: }", "map[environment:[A=1 B=two C=]]")
	f("grace: 1m", "map[grace:[1m0s]]")
	f("grace: 500", "map[grace:[500ms]]")
	f("watch: true\nlog-format: json", "map[log-format:[json] watch:[true]]")
	f("form-specs: a", `conf/u.yaml:1:1: form-specs: unknown field`)
	f("watch: perhaps", "conf/u.yaml:1:8: watch: ")
	f("log-format: xml", "conf/u.yaml:1:13: log-format: ")
	f("environment: [a]", "conf/u.yaml:1:14: environment: want a map")
	f("environment: {A: [1]}", "conf/u.yaml:1:18: environment.A: want text")
	f("watch: true\nwatch: true", "watch")
	f("watch: [", "conf/u.yaml:")
	f("- a", "want a map")
	f("cpuprofile: f", "unknown field")
}

// FuzzConfig wants findings with a place for whatever cannot be used.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"", "from-specs: [a]", "environment: {A: 1}", "watch: [", "? [a]\n: b", "a: &x [*x]", "\x00", "grace: 5s", "a:\n b:\n  c: !!int x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, list := parseConfig("u.yaml", []byte(text))
		for _, d := range list {
			if d.Pos.File != "u.yaml" || d.Msg == "" {
				t.Errorf("%q: got %v, want a place", text, d)
			}
		}
		for name, values := range c.values {
			if !layered(name) || values == nil && name != flagEnvironment && name != flagSpecs && name != flagValues {
				t.Errorf("%q: got %s: %q, want a value of a flag", text, name, values)
			}
		}
	})
}
