package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestUsage(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "budgets.yaml")
	put(t, empty, "[]\n")
	f := func(want int, says string, args ...string) {
		t.Helper()
		var errs bytes.Buffer
		if got := run(t.Context(), append([]string{"-budgets", empty}, args...), io.Discard, &errs); got != want || !strings.Contains(errs.String(), says) {
			t.Errorf("%q: got exit code %d and %q, want %d and %q", args, got, errs.String(), want, says)
		}
	}
	f(program.Usage, "not defined", "-nope")
	f(program.Usage, "unexpected arguments", "main")
	f(program.Usage, "-rounds must be at least 10", "-rounds", "9")
	f(program.Usage, "must be above 0", "-limit", "0")
	f(program.Usage, "-only", "-only", "(")
	f(program.Usage, "no such file", "-budgets", filepath.Join(t.TempDir(), "none"))
	f(program.Trouble, "bench/guard/base", "-dir", t.TempDir())
	f(program.Trouble, "not in this clone", "-dir", t.TempDir(), "-base", "main")
	put(t, empty, "- benchmark: x\n")
	f(program.Usage, "budgets.yaml:1: benchmark and reason")
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestReadBase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "base")
	f := func(text, want string) {
		t.Helper()
		put(t, file, text)
		got, err := readBase(file)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	f("# why\n\nabc123 # and why not\ndef\n", "abc123")
	f("v1.0 of last year\n", "v1.0")
	f("# nothing\n", "")
	f("", "")
	if got, err := readBase(filepath.Join("base")); err != nil || len(got) != 40 {
		t.Errorf("of this repository: got %q, %v, want a hash", got, err)
	}
}

// TestBudgets reads the file of this repository.
func TestBudgets(t *testing.T) {
	file := filepath.Join("..", "budgets.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseBudgets(file, data); err != nil {
		t.Error(err)
	}
}

// benchmarks is a package with what the catalogue guards in value, whose work is
// a number of turns. Half of it is the same in base and head, so that the share of spin grows.
const benchmarks = `package value

import "testing"

var sink uint64

func spin(n int) {
	for i := range uint64(n) {
		sink += i * i
	}
}

func steady() {
	for i := range uint64(1000) {
		sink += i * i
	}
}

func BenchmarkMapWith(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		steady()
		spin(TURNS)
	}
}
`

// TestGuard compares two revisions of a small module, whose head is slower, has
// lost a benchmark and has got another.
func TestGuard(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	spun := func(turns, more string) string { return strings.Replace(benchmarks, "TURNS", turns, 1) + more }
	git(t, dir, "init", "--quiet")
	put(t, filepath.Join(dir, "go.mod"), "module "+module+"\n\ngo 1.26\n")
	put(t, filepath.Join(dir, "value", "value.go"), "package value\n")
	put(t, filepath.Join(dir, "value", "bench_test.go"), spun("1000", "\nfunc BenchmarkJSON(b *testing.B) { b.Run(\"ours\", BenchmarkMapWith) }\n"))
	budgets := filepath.Join(dir, "bench", "budgets.yaml")
	put(t, budgets, "[]\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "-m", "base")

	guard := func(want int, only string) (stdout, stderr string) {
		t.Helper()
		var o, e bytes.Buffer
		args := []string{"-dir", dir, "-base", "HEAD", "-budgets", budgets, "-out", out, "-slice", "2ms", "-only", only}
		if got := run(t.Context(), args, &o, &e); got != want {
			t.Errorf("got exit code %d, want %d: %s%s", got, want, o.String(), e.String())
		}
		return o.String(), e.String()
	}
	if o, e := guard(program.OK, "maps"); !regexp.MustCompile(`value\.MapWith +equal binary\n`).MatchString(o) || strings.Contains(o, "JSON") || !strings.Contains(e, "equal to the byte: value\n") {
		t.Errorf("the same: got %s%s, want a row of value.MapWith only, which is not measured", o, e)
	}
	put(t, filepath.Join(dir, "value", "testdata", "input"), "of one side\n")
	if o, _ := guard(program.OK, "maps"); !strings.Contains(o, "value.MapWith") || strings.Contains(o, "equal binary") {
		t.Errorf("with another file: got %s, want a row of value.MapWith that is measured", o)
	}
	put(t, filepath.Join(dir, "value", "bench_test.go"), spun("5000", "\nfunc BenchmarkCodec(b *testing.B) { b.Run(\"compiled\", BenchmarkMapWith) }\n"))
	o, _ := guard(program.Failed, "value")
	for _, want := range []string{"FAIL value.MapWith: ", "(limit +10 %), p = ", "    value.spin: flat ", "FAIL value.JSON/ours: the base has it", "value.Codec/compiled", "new\n"} {
		if !strings.Contains(o, want) {
			t.Errorf("got %s, want %q in it", o, want)
		}
	}
	var rec struct {
		Failed bool  `json:"failed"`
		Rows   []row `json:"benchmarks"`
	}
	data, err := os.ReadFile(filepath.Join(out, "guard.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &rec); err != nil || !rec.Failed || len(rec.Rows) != 3 {
		t.Errorf("got %s, %v, want a failure and three rows", data, err)
	}
	for _, r := range rec.Rows {
		if r.ID == "value.MapWith" && (len(r.First.Time.Base) < 10 || len(r.Second.Time.Head) < 20 || len(r.Blame) == 0) {
			t.Errorf("got %+v, want at least 10 and 20 samples, and a function", r)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "guard", "value.MapWith.head.cpu.pprof")); err != nil {
		t.Errorf("got %v, want the profile kept", err)
	}
	const accepted = "- {benchmark: value.MapWith, limit: +9000%, reason: it is a test, date: 2026-01-01}\n" +
		"- {benchmark: value.JSON/ours, gone: true, reason: it is a test, date: 2026-01-01}\n"
	put(t, budgets, accepted)
	if o, _ := guard(program.OK, "value"); !strings.Contains(o, "gone, accepted") || !strings.Contains(o, "with a budget") {
		t.Errorf("got %s, want both accepted", o)
	}
	put(t, budgets, "- {benchmark: value.Nope, gone: true, reason: it is a test, date: 2026-01-01}\n")
	if _, e := guard(program.Trouble, "value"); !strings.Contains(e, `budgets.yaml:1: there is no benchmark "value.Nope"`) {
		t.Errorf("got %s, want the line of the budget", e)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".git", "worktrees", "*")); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing left in the repository", left, err)
	}
}
