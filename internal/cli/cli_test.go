package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
)

// execute runs a command that ends by itself.
func execute(t *testing.T, env map[string]string, args ...string) (code int, out, errs string) {
	t.Helper()
	return apptest.Execute(t, root, env, args...)
}

const (
	goodSpec  = "kind: snippet\nname: pong\nlanguage: text\ncode: pong\n"
	warnSpec  = "kind: snippet\nname: pong\ncode: pong\n"
	wrongSpec = "kind: snippet\nname: pong\nlanguage: text\nkode: pong\n"
)

func TestExitCodes(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "good.yaml", goodSpec)
	apptest.Write(t, "warn.yaml", warnSpec)
	apptest.Write(t, "wrong.yaml", wrongSpec)
	f := func(want int, message string, args ...string) {
		t.Helper()
		code, out, errs := execute(t, nil, args...)
		if code != want || !strings.Contains(out+errs, message) {
			t.Errorf("%q: got %d, %q, %q, want %d and %q", args, code, out, errs, want, message)
		}
	}
	f(0, "Usage:")
	f(0, "ok: 1 node\n", "check", "good.yaml")
	f(0, "ok: 1 node, 1 warning\n", "check", "warn.yaml")
	f(1, "[F5001]", "check", "--strict", "warn.yaml")
	f(1, "hint: did you mean \"code\"?", "check", "wrong.yaml")
	f(1, "[F1016]", "check", "missing.yaml")
	f(2, "nothing to check", "check")
	f(2, "did you mean --from-specs?", "check", "--from-spec", "good.yaml")
	f(2, "did you mean check?", "chek", "--json")
	f(2, `unknown command "xyzzy"`, "xyzzy")
	f(2, "unknown shorthand flag", "check", "-z")
	f(2, "takes KEY=VALUE", "check", "-e", "KEY", "good.yaml")
	f(2, "there 2 times", "check", "-", "-")
	f(2, `--language: unknown language "basic"`, "check", "--language", "basic", "good.yaml")
	f(2, "nothing to serve", "start")
	f(2, "--log-format must be text or json", "start", "good.yaml", "--log-format", "xml")
	f(2, "--log-format must be text or json", "start", "-f", "good.yaml", "--log-format", "xml")
	f(2, "--log-format must be text or json", "start", "--from-specs", "good.yaml", "--log-format", "xml")
	f(2, "needs a token", "start", "--from-specs", "good.yaml", "--admin", "0.0.0.0:0")
	f(2, "want HOST:PORT", "start", "--from-specs", "good.yaml", "--admin", "9000")
	f(2, "must not be negative", "start", "--from-specs", "good.yaml", "--grace", "-1s")
	f(1, "[F2001]", "start", "--from-specs", "wrong.yaml")
	f(1, "[F1016]", "start", "--from-specs", "missing.yaml")
	f(3, "profile: open", "start", "--from-specs", "good.yaml", "--cpuprofile", "no/such/folder")
	f(2, "nothing to format", "fmt")
	f(2, "several files", "fmt", "good.yaml", "warn.yaml")
	f(2, "standard input cannot be written", "fmt", "-w", "-l", "-")
	f(2, "needs a kind", "describe")
	f(2, "takes one kind", "describe", "if", "switch")
	f(2, "did you mean snippet?", "describe", "snipet")
	f(2, "did you mean", "explain", "F300")
	f(2, "takes one code", "explain", "F3001", "F3002")
	f(2, "unknown kind", "schema", "xyzzy")
	f(2, "takes no arguments", "list", "kinds")
	f(0, "# bash completion", "completion", "bash")
	f(2, "did you mean bash?", "completion", "bsh")
	f(2, "takes no arguments", "completion", "bash", "zsh")
	f(2, "did you mean check?", "help", "chek")
	f(2, "uniflow check finds errors in documents", "help", "lint")
	f(0, "uniflow check [FILE...]", "help", "check")
}

// TestBrokenOutput has a full disk below standard output.
func TestBrokenOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "wrong.yaml", wrongSpec)
	for _, args := range [][]string{{"list"}, {"version", "--json"}, {"check", "wrong.yaml"}, {"schema"}, {"fmt", "wrong.yaml"}} {
		var errs bytes.Buffer
		code := Main(t.Context(), args, apptest.Machine(apptest.Broken{}, &errs, nil))
		if code != app.ExitFailure || !strings.Contains(errs.String(), "standard output: disk full") {
			t.Errorf("%q: got %d, %q, want %d and the reason", args, code, errs.String(), app.ExitFailure)
		}
	}
}

func TestColour(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "wrong.yaml", wrongSpec)
	f := func(terminal bool, env map[string]string, want bool) {
		t.Helper()
		var out, errs bytes.Buffer
		m := apptest.Machine(&out, &errs, env)
		m.Terminal = func(io.Writer) bool { return terminal }
		Main(t.Context(), []string{"check", "wrong.yaml"}, m)
		if got := strings.Contains(out.String(), "\x1b["); got != want {
			t.Errorf("terminal %v, environment %v: got colour %v, want %v", terminal, env, got, want)
		}
	}
	f(true, nil, true)
	f(false, nil, false)
	f(true, map[string]string{"NO_COLOR": "1"}, false)
	f(true, map[string]string{"TERM": "dumb"}, false)
}

// TestNamespaces checks what is in any namespace, unless one is named.
func TestNamespaces(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", "- {kind: nop, name: a}\n- {kind: nop, name: b, namespace: other, extra: 1}\n")
	f := func(want int, nodes int, args ...string) {
		t.Helper()
		code, out, errs := execute(t, nil, append([]string{"check", "--json", "f.yaml"}, args...)...)
		var result struct {
			Nodes    int
			Findings []struct{ Code diag.Code }
		}
		if err := json.Unmarshal([]byte(out), &result); err != nil {
			t.Fatal(err, out, errs)
		}
		if code != want || result.Nodes != nodes || len(result.Findings) != want {
			t.Errorf("%q: got %d, %+v, want %d and %d nodes", args, code, result, want, nodes)
		}
	}
	f(1, 2)
	f(1, 2, "--namespace", "other") // a too, as it names none
	f(0, 1, "--namespace", "default")
}

func TestLayers(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "flag.yaml", goodSpec)
	apptest.Write(t, "env.yaml", "- {kind: nop, name: a}\n- {kind: nop, name: b}\n")
	apptest.Write(t, "conf/file.yaml", "- {kind: nop, name: a}\n- {kind: nop, name: b}\n- {kind: nop, name: c}\n")
	apptest.Write(t, "conf/uniflow.yaml", "from-specs: [file.yaml]\nenvironment: {PORT: 80}\ngrace: 5s\nwatch: true\n")
	f := func(want string, env map[string]string, args ...string) {
		t.Helper()
		if code, out, errs := execute(t, env, append([]string{"check"}, args...)...); errs != want {
			t.Errorf("%q, %v: got %d, %q, %q, want %q", args, env, code, out, errs, want)
		}
	}
	env := map[string]string{"UNIFLOW_FROM_SPECS": "env.yaml", "UNIFLOW_CONFIG": "conf/uniflow.yaml"}
	f("ok: 1 node\n", env, "flag.yaml")
	f("ok: 1 node\n", env, "--from-specs", "flag.yaml")
	f("ok: 2 nodes\n", env)
	f("ok: 3 nodes\n", map[string]string{"UNIFLOW_CONFIG": "conf/uniflow.yaml"})
	f("ok: 3 nodes\n", map[string]string{"UNIFLOW_CONFIG": "nowhere.yaml"}, "--config", "conf/uniflow.yaml")
	f("ok: 3 nodes\n", map[string]string{"UNIFLOW_FROM_SPECS": "env.yaml" + string(filepath.ListSeparator) + "flag.yaml"})
	f("uniflow: config file: nowhere.yaml: there is no file or folder of that name [F1016]\nhint: paths are relative to the working folder\n", map[string]string{"UNIFLOW_CONFIG": "nowhere.yaml"})
	apptest.Write(t, ".uniflow.yaml", "from-specs: env.yaml\n")
	f("ok: 2 nodes\n", nil)
	apptest.Write(t, ".uniflow.yaml", "")
	f("ok: 1 node\n", nil, "flag.yaml")
	code, _, errs := execute(t, map[string]string{"UNIFLOW_WATCH": "perhaps"}, "start", "--from-specs", "flag.yaml")
	if code != app.ExitUsage || !strings.Contains(errs, "environment variable UNIFLOW_WATCH") {
		t.Errorf("got %d, %q, want the variable named", code, errs)
	}
}

func TestEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", "kind: snippet\nname: a\nlanguage: text\nenv: {A: {data: '{{ .A }}'}, B: {data: '{{ .B }}'}}\ncode: '{{ .A }}{{ .B }}'\n")
	f := func(want int, env map[string]string, args ...string) {
		t.Helper()
		if code, out, errs := execute(t, env, append([]string{"check", "f.yaml"}, args...)...); code != want {
			t.Errorf("%q, %v: got %d, %q, %q, want %d", args, env, code, out, errs, want)
		}
	}
	f(1, nil)
	f(0, nil, "-e", "A=1,2", "--environment", "B==")
	f(0, map[string]string{"UNIFLOW_ENVIRONMENT": "A=1,2\nB=3\n"})
	f(1, map[string]string{"UNIFLOW_ENVIRONMENT": "A=1\nB=3"}, "-e", "A=1")
	apptest.Write(t, ".uniflow.yaml", "environment: {A: 1, B: two}\n")
	f(0, nil)
}

// tree calls f for each command.
func tree(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, below := range cmd.Commands() {
		tree(below, f)
	}
}

func wholeTree(t *testing.T, f func(*cobra.Command)) {
	t.Helper()
	tree(root(app.New(nil, apptest.Machine(io.Discard, io.Discard, nil))), f)
}

// TestShorthands lets each shorthand have one meaning in all commands.
func TestShorthands(t *testing.T) {
	meaning := map[string]string{"o": "output"}
	same := map[string]string{"out": "output"} // of trail export, a file to write as well
	wholeTree(t, func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Shorthand == "" || f.ShorthandDeprecated != "" {
				return
			}
			name := f.Name
			if other, ok := same[name]; ok {
				name = other
			}
			if was, ok := meaning[f.Shorthand]; ok && was != name {
				t.Errorf("%s: -%s is --%s, and --%s elsewhere", cmd.CommandPath(), f.Shorthand, f.Name, was)
			}
			meaning[f.Shorthand] = name
		})
	})
	for short, name := range map[string]string{"f": "from-specs", "e": "environment", "w": "write", "l": "list", "n": "namespace", "i": "input"} {
		if meaning[short] != name {
			t.Errorf("-%s is --%s, want --%s", short, meaning[short], name)
		}
	}
}

// TestOldShorthands go on for one version, with a remark.
func TestOldShorthands(t *testing.T) {
	code, out, errs := execute(t, nil, "eval", "-l", "text", "-e", "hello")
	if code != 0 || out != "\"hello\"\n" || strings.Count(errs, "\n") != 2 ||
		!strings.Contains(errs, "-l has been deprecated, write --language") || !strings.Contains(errs, "-e has been deprecated, write eval CODE") {
		t.Errorf("got %d, %q, %q", code, out, errs)
	}
	if code, _, errs := execute(t, nil, "start", "-w", "missing.yaml"); code != 1 || !strings.Contains(errs, "-w has been deprecated, write --watch") {
		t.Errorf("got %d, %q", code, errs)
	}
	if code, _, errs := execute(t, nil, "start", "--watch", "missing.yaml"); code != 1 || strings.Contains(errs, "deprecated") {
		t.Errorf("got %d, %q", code, errs)
	}
	if _, out, _ := execute(t, nil, "start", "--help"); strings.Contains(out, "-w,") || !strings.Contains(out, "--watch") {
		t.Errorf("got %q", out)
	}
}

// TestConfigNamesFiles lets the config file name the documents for all commands that take some.
func TestConfigNamesFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "named.yaml", "kind: [nop\n")
	apptest.Write(t, "other.yaml", "from-specs: named.yaml\n")
	apptest.Write(t, "letters.ndjson", `{"message": "m", "node": "s", "data": {}}`+"\n")
	more := map[string][]string{
		"start": nil, "check": nil, "run": nil, "call": {"NODE"}, "test": nil, "openapi": nil, "explain": nil, "graph": nil, "mcp": nil, "fmt": {"-l"},
		"requeue": {"letters.ndjson"},
	}
	found := 0
	f := func(cmd *cobra.Command) {
		t.Helper()
		if cmd.Flags().Lookup("from-specs") == nil || cmd.Flags().Lookup("config") == nil {
			return
		}
		found++
		args, ok := more[cmd.Name()]
		if !ok {
			t.Errorf("%s takes files, and is not tried here", cmd.CommandPath())
			return
		}
		args = append(strings.Fields(cmd.CommandPath())[1:], args...)
		code, out, errs := execute(t, nil, append(args, "--config", "other.yaml")...)
		if code == 0 || !strings.Contains(out+errs, "named.yaml:1:7: ") {
			t.Errorf("%v: got %d, %q, %q, want what is wrong with named.yaml", args, code, out, errs)
		}
	}
	wholeTree(t, f)
	if found != len(more) {
		t.Errorf("tried %d commands, want %d", found, len(more))
	}
}
