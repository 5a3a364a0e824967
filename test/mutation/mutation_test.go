package mutation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/uniflow-labs/uniflow"

var (
	full = flag.Bool("full", false, "run the test of each safeguard without it")
	root = filepath.Join("..", "..")
)

// A mutation removes a safeguard, which a test must notice.
type mutation struct {
	name string
	file string // within the module, with slashes
	in   string // the folder of the test's package, likewise
	test string // the name of a test, perhaps with subtests
	cuts []cut
}

// A cut replaces text that occurs once in a file.
type cut struct{ old, new string }

// TestMutations finds each safeguard in the code as it is. With -full, its test must fail
// without it.
func TestMutations(t *testing.T) {
	b := trials{work: t.TempDir(), passes: make(map[string]error)}
	names := make(map[string]bool)
	for _, m := range slices.Concat(ofBatch(), ofStreams(), ofTrail()) {
		if names[m.name] {
			t.Errorf("%s: two have this name", m.name)
		}
		names[m.name] = true
		t.Run(m.name, func(t *testing.T) {
			overlay, err := b.overlay(m)
			if err == nil && *full {
				err = b.try(t.Context(), m, overlay)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDrift(t *testing.T) {
	b := trials{work: t.TempDir()}
	m := mutation{name: "gone", file: "batch/transmission.go", in: "batch/faults", test: "TestX", cuts: []cut{{"no such text", ""}}}
	if _, err := b.overlay(m); err == nil || !strings.Contains(err.Error(), "no such text") || !strings.Contains(err.Error(), m.file) {
		t.Errorf("got %v, want an error with the file and the text", err)
	}
}

// trials are what the mutations share.
type trials struct {
	work   string
	passes map[string]error // whether each test passes without a change, by folder and name
}

// try returns nil if the test notices the mutation.
func (b *trials) try(ctx context.Context, m mutation, overlay string) error {
	if err := b.passesNow(ctx, m); err != nil {
		return err
	}
	output, err := b.test(ctx, m, "-overlay", overlay)
	top, _, _ := strings.Cut(m.test, "/")
	var exit *exec.ExitError
	switch {
	case err == nil:
		return fmt.Errorf("%s did not notice", m.test)
	case !errors.As(err, &exit):
		return err
	case bytes.Contains(output, []byte("[build failed]")), bytes.Contains(output, []byte("[setup failed]")):
		return fmt.Errorf("what is left does not compile:\n%s", output)
	case bytes.Contains(output, []byte("no tests to run")):
		return fmt.Errorf("there is no test %s", m.test)
	case !slices.ContainsFunc([]string{"--- FAIL: " + top + " ", "panic: ", "fatal error: "}, func(s string) bool {
		return bytes.Contains(output, []byte(s))
	}):
		return fmt.Errorf("%s did not fail itself:\n%s", m.test, output)
	}
	return nil
}

// overlay writes the file of a safeguard without it, and what -overlay takes.
func (b *trials) overlay(m mutation) (string, error) {
	path, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	changed := string(text)
	for i, c := range m.cuts {
		if n := strings.Count(changed, c.old); n != 1 {
			return "", fmt.Errorf("cut %d does not apply: %s has its text %d times, it must have it once:\n%s", i+1, m.file, n, c.old)
		}
		changed = strings.Replace(changed, c.old, c.new, 1)
	}
	other := filepath.Join(b.work, strings.ReplaceAll(m.name, " ", "-")+".go")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: other}})
	if err != nil {
		return "", err
	}
	overlay := other + ".json"
	return overlay, errors.Join(os.WriteFile(other, []byte(changed), 0o600), os.WriteFile(overlay, list, 0o600))
}

// passesNow checks, once for each test, that it passes without a change.
func (b *trials) passesNow(ctx context.Context, m mutation) error {
	name := m.in + " " + m.test
	err, known := b.passes[name]
	if !known {
		var output []byte
		if output, err = b.test(ctx, m); err != nil {
			err = fmt.Errorf("%s fails without a change: %w\n%s", m.test, err, output)
		}
		b.passes[name] = err
	}
	return err
}

func (b *trials) test(ctx context.Context, m mutation, flags ...string) ([]byte, error) {
	parts := strings.Split(m.test, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	args := append([]string{"test", "-count=1", "-timeout=120s", "-run", strings.Join(parts, "/")}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, module+"/"+m.in)...)
	cmd.Dir = root
	return cmd.CombinedOutput()
}
