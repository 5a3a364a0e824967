// Command progress runs go test and prints each package when it has passed, in the order in
// which they end, and what a failed test has printed:
//
//	go run ./test/progress go test ./...
//
// go test by itself prints packages in the order of their names, so a slow one holds back the
// others, and nothing while the first one is compiled. Half a minute without a line is followed
// by one that says what runs. The exit status is that of go test.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// quiet is how long nothing is printed before a line says what is going on.
const quiet = 30 * time.Second

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "progress:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func run(args []string, out io.Writer) (code int, err error) {
	at := slices.Index(args, "test")
	if at < 0 {
		return 0, errors.New("no go test; call it as progress go test PACKAGES")
	}
	args = slices.Insert(slices.Clone(args), at+1, "-json")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	r := newReport(out)
	lines := make(chan string)
	read := make(chan error, 1)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(lines)
		in := bufio.NewReader(events)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				lines <- line
			}
			if err != nil {
				read <- err
				return
			}
		}
	})
	r.watch(lines, quiet)
	reader.Wait()
	if err := <-read; err != io.EOF {
		return 0, errors.Join(err, cmd.Wait())
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return max(cmd.ProcessState.ExitCode(), -cmd.ProcessState.ExitCode()), nil
}

// An event is a line of go test -json: see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// A test is one of a package, or the package itself, whose name is "".
type test struct{ pkg, name string }

// A report prints the events of a run.
type report struct {
	out     io.Writer
	began   time.Time
	running map[string]time.Time // packages, and since when
	output  map[test]string      // of what runs, and of tests that failed in packages that run
	done    int
	failed  []string
}

func newReport(out io.Writer) *report {
	return &report{out: out, began: time.Now(), running: make(map[string]time.Time), output: make(map[test]string)}
}

// watch prints lines of events until there are no more, and what runs after each pause.
func (r *report) watch(lines <-chan string, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case line, more := <-lines:
			if !more {
				r.end()
				return
			}
			if r.take(line) {
				timer.Reset(pause)
			}
		case <-timer.C:
			fmt.Fprintln(r.out, r.state(time.Now()))
			timer.Reset(pause)
		}
	}
}

// take handles one line, and reports whether it has printed something.
func (r *report) take(line string) (printed bool) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(r.out, line) // of go itself
		return true
	}
	id := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
		return true
	case "start":
		r.running[e.Package] = time.Now()
	case "output":
		r.output[id] += e.Output
	case "pass", "skip", "fail":
		if e.Test == "" {
			return r.ended(e.Package, e.Action)
		}
		if e.Action == "fail" {
			fmt.Fprintf(r.out, "%s\n%s", e.Package, r.output[id])
			printed = true
		}
		delete(r.output, id)
	}
	return printed
}

// ended prints the result of a package, and what it has printed if it failed.
func (r *report) ended(pkg, action string) (printed bool) {
	text := r.output[test{pkg, ""}]
	delete(r.running, pkg)
	r.done++
	if action == "fail" {
		for id, rest := range r.output { // a panic ends the program in the middle of a test
			if id.pkg == pkg && id.name != "" {
				fmt.Fprint(r.out, rest)
			}
		}
		fmt.Fprint(r.out, text)
		if !strings.Contains(text, "FAIL\t") {
			fmt.Fprintf(r.out, "FAIL\t%s\n", pkg)
		}
		r.failed = append(r.failed, pkg)
		printed = true
	} else {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "ok ") {
				fmt.Fprint(r.out, line)
				printed = true
			}
		}
	}
	maps.DeleteFunc(r.output, func(id test, _ string) bool { return id.pkg == pkg })
	return printed
}

// state says what is going on.
func (r *report) state(now time.Time) string {
	text := fmt.Sprintf("... %s: %d packages done, ", now.Sub(r.began).Round(time.Second), r.done)
	if len(r.running) == 0 {
		return text + "compiling"
	}
	longest := slices.SortedFunc(maps.Keys(r.running), func(a, b string) int {
		return cmp.Or(r.running[a].Compare(r.running[b]), strings.Compare(a, b))
	})
	return text + "running " + strings.Join(longest, ", ")
}

// end prints which packages have failed, as their output may be far above.
func (r *report) end() {
	for _, pkg := range r.failed {
		fmt.Fprintf(r.out, "FAIL %s\n", pkg)
	}
}
