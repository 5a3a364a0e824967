package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestOrder prints a package as it passes, though one before it still runs, and of tests only
// what failed ones have printed.
func TestOrder(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	for _, line := range []string{
		`{"Action":"start","Package":"a"}`,
		`{"Action":"start","Package":"b"}`,
		`{"Action":"output","Package":"b","Test":"TestFine","Output":"talk\n"}`,
		`{"Action":"pass","Package":"b","Test":"TestFine"}`,
		`{"Action":"output","Package":"b","Output":"PASS\n"}`,
		`{"Action":"output","Package":"b","Output":"ok  \tb\t0.1s\n"}`,
		`{"Action":"pass","Package":"b"}`,
		`{"Action":"output","Package":"a","Test":"TestBad","Output":"    a_test.go:1: got 1, want 2\n"}`,
		`{"Action":"fail","Package":"a","Test":"TestBad"}`,
		`{"Action":"output","Package":"a","Test":"TestPanics","Output":"panic: x\n"}`,
		`{"Action":"output","Package":"a","Output":"FAIL\ta\t0.2s\n"}`,
		`{"Action":"fail","Package":"a"}`,
		`{"Action":"output","Package":"c","Output":"?   \tc\t[no test files]\n"}`,
		`{"Action":"skip","Package":"c"}`,
		`go: a line of go itself`,
	} {
		r.take(line + "\n")
	}
	r.end()
	const want = "ok  \tb\t0.1s\na\n    a_test.go:1: got 1, want 2\npanic: x\nFAIL\ta\t0.2s\ngo: a line of go itself\nFAIL a\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestQuiet says what runs while nothing ends.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		r := newReport(&out)
		lines := make(chan string)
		go func() {
			defer close(lines)
			<-time.After(45 * time.Second)
			lines <- `{"Action":"start","Package":"a"}`
			<-time.After(30 * time.Second)
		}()
		r.watch(lines, 30*time.Second)
		const want = "... 30s: 0 packages done, compiling\n... 1m0s: 0 packages done, running a\n"
		if got := out.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// TestStatus runs go test on a module that passes, fails and does not compile.
func TestStatus(t *testing.T) {
	f := func(body string, want int, printed string) {
		t.Helper()
		dir := t.TempDir()
		for name, text := range map[string]string{
			"go.mod":    "module example.com/m\n\ngo 1.26\n",
			"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestM(t *testing.T) { " + body + " }\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		code, err := run([]string{"env", "GOWORK=off", "go", "-C", dir, "test", "-vet=off", "./..."}, &out)
		if err != nil || code != want || !strings.Contains(out.String(), printed) {
			t.Errorf("%s: got %d, %v\n%s\nwant %d with %q", body, code, err, out.String(), want, printed)
		}
	}
	f("", 0, "ok  \texample.com/m")
	f(`t.Error("got 1, want 2")`, 1, "got 1, want 2")
	f("no such thing", 1, "m_test.go:5")
	if _, err := run([]string{"go", "vet"}, os.Stdout); err == nil {
		t.Error("go vet was taken for go test")
	}
}
