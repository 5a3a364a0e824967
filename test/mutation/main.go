// Command mutation shows that the tests of faults notice mistakes: it removes one safeguard
// at a time, and the test for it must fail. It does not change the working copy: the
// compiler gets the changed file with go test -overlay.
//
//	go run ./test/mutation [-run regexp] [-v]
//
// batch.go, streams.go and trail.go have the safeguards, as a text in a file and its replacement. If a
// file does not have the text exactly once, the code has changed and the table must change
// too. The exit
// status is 1 after such an error, if a test did not notice, or if one fails without a
// change.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const module = "github.com/uniflow-labs/uniflow"

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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutation", flag.ContinueOnError)
	only := flags.String("run", "", "run only mutations with a name that matches this regular expression")
	verbose := flags.Bool("v", false, "show the output of the tests")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	root, err := rootOf(ctx)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	b := bench{root: root, work: work, out: out, verbose: *verbose, passes: make(map[string]error)}
	var errs []error
	for _, m := range slices.Concat(ofBatch(), ofStreams(), ofTrail()) {
		if !match.MatchString(m.name) {
			continue
		}
		start := time.Now()
		err := b.try(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		output := "noticed by " + m.test
		if err != nil {
			output = err.Error()
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
		fmt.Fprintf(out, "%-32s %6.1fs  %s\n", m.name, time.Since(start).Seconds(), output)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%d safeguards are not guarded:\n%w", len(errs), errors.Join(errs...))
}

func rootOf(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// A bench tries mutations.
type bench struct {
	root, work string
	out        io.Writer
	verbose    bool
	passes     map[string]error // whether each test passes without a change, by folder and name
}

// try returns nil if the test notices the mutation.
func (b *bench) try(ctx context.Context, m mutation) error {
	overlay, err := b.overlay(m)
	if err != nil {
		return err
	}
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

func (b *bench) overlay(m mutation) (string, error) {
	path := filepath.Join(b.root, filepath.FromSlash(m.file))
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
func (b *bench) passesNow(ctx context.Context, m mutation) error {
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

func (b *bench) test(ctx context.Context, m mutation, flags ...string) ([]byte, error) {
	parts := strings.Split(m.test, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	args := append([]string{"test", "-count=1", "-timeout=120s", "-run", strings.Join(parts, "/")}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, module+"/"+m.in)...)
	cmd.Dir = b.root
	// After an interrupt, it ends its children itself.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	output, err := cmd.CombinedOutput()
	if b.verbose {
		fmt.Fprintf(b.out, "%s\n", output)
	}
	return output, err
}
