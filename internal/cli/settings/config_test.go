package settings

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
)

func TestConfig(t *testing.T) {
	workers := 3
	table := append(New().table(), setting{name: "workers", into: &workers, usage: "run `N` workers"})
	f := func(text, want string) {
		t.Helper()
		c, list := parseConfig(table, "conf/u.yaml", []byte(text))
		got := fmt.Sprint(c.values)
		if len(list) > 0 {
			got += list.Error()
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
	f("grace: 500", "map[grace:[500ms]]conf/u.yaml:1:8: warning: grace: 500 has no unit")
	f("watch: true\nlog-format: json", "map[log-format:[json] watch:[true]]")
	f("workers: 12", "map[workers:[12]]")
	f("otlp-ratio: 0.5", "map[otlp-ratio:[0.5]]")
	f("workers: many", "conf/u.yaml:1:10: workers: ")
	f("language: basic", "conf/u.yaml:1:11: language: ")
	f("form-specs: a", `conf/u.yaml:1:1: form-specs: unknown field`)
	f("watch: perhaps", "conf/u.yaml:1:8: watch: ")
	f("log-format: xml", "conf/u.yaml:1:13: log-format: ")
	f("environment: [a]", "conf/u.yaml:1:14: environment: must be a map")
	f("environment: {A: [1]}", "conf/u.yaml:1:18: environment.A: must be text")
	f("watch: true\nwatch: true", "watch")
	f("watch: [", "conf/u.yaml:")
	f("- a", "want a map")
	f("cpuprofile: f", "unknown field")
}

// FuzzConfig expects findings with a place for all that cannot be used.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"", "from-specs: [a]", "environment: {A: 1}", "watch: [", "? [a]\n: b", "a: &x [*x]", "\x00", "grace: 5s", "a:\n b:\n  c: !!int x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, list := parseConfig(New().table(), "u.yaml", []byte(text))
		for _, d := range list {
			if d.Pos.File != "u.yaml" || d.Msg == "" {
				t.Errorf("%q: got %v, want a place", text, d)
			}
		}
		for name, values := range c.values {
			i := slices.IndexFunc(New().table(), func(s setting) bool { return s.name == name })
			if i < 0 || values == nil && New().table()[i].kind().name != "map" && !strings.HasPrefix(name, "from-") {
				t.Errorf("%q: got %s: %q, want a value of a flag", text, name, values)
			}
		}
	})
}

// TestTable adds the flags of all settings, and gives each its value from a variable.
func TestTable(t *testing.T) {
	text := map[string]string{"string": "json", "map": "A=1\nB=2", "boolean": "true", "number": "0.25", "duration": "3s", "size": "64MiB", "list of strings": "a" + string(filepath.ListSeparator) + "b"}
	s := New()
	for _, row := range s.table() {
		cmd := &cobra.Command{Use: "start"}
		s := New()
		s.AddFlags(cmd)
		value, ok := text[row.kind().name]
		if !ok {
			t.Fatalf("%s: no value for the type %s", row.name, row.kind().name)
		}
		a := app.New(nil, apptest.Machine(io.Discard, io.Discard, map[string]string{Variable(row.name): value}))
		if err := s.Resolve(a, cmd); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		before, after := New().table(), s.table()
		for i := range before {
			same := reflect.DeepEqual(before[i].into, after[i].into)
			if same != (before[i].name != row.name) {
				t.Errorf("%s=%s: %s: got unchanged %v", Variable(row.name), value, before[i].name, same)
			}
		}
		if !strings.Contains(Markdown(), "| `"+row.name+"` | `"+Variable(row.name)+"` |") {
			t.Errorf("%s is not in the reference", row.name)
		}
	}
}

// TestUnknownVariables warns of variables that look like settings.
func TestUnknownVariables(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		var errs bytes.Buffer
		cmd := &cobra.Command{Use: "start"}
		s := New()
		s.AddFlags(cmd)
		if err := s.Resolve(app.New(nil, apptest.Machine(io.Discard, &errs, map[string]string{name: "1s"})), cmd); err != nil {
			t.Error(err)
		}
		if errs.String() != want {
			t.Errorf("%s: got %q, want %q", name, errs.String(), want)
		}
	}
	warning := func(name string) string {
		return "uniflow: warning: the environment variable " + name + " is not a setting\n"
	}
	f("UNIFLOW_GRACE", "")
	f("UNIFLOW_GARCE", warning("UNIFLOW_GARCE")+"hint: did you mean UNIFLOW_GRACE?\n")
	f("UNIFLOW_FROM_SPEC", warning("UNIFLOW_FROM_SPEC")+"hint: did you mean UNIFLOW_FROM_SPECS?\n")
	f("UNIFLOW_SOMETHING_ELSE", warning("UNIFLOW_SOMETHING_ELSE"))
	f("UNIFLOW_TRAIL_DSN", "")
	f("UNIFLOW_SERVICE_HOST", "")
	f("UNIFLOW_PORT", "")
	f("UNIFLOW_PORT_8000_TCP_ADDR", "")
	f("UNIFLOW_ADMIN_SERVICE_PORT_HTTP", "")
	f("uniflow_grace", "")
	f("PATH", "")
}
