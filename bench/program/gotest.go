package program

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
)

// A Toolchain is the go command in a folder. The zero Toolchain works in the
// current one.
type Toolchain struct {
	Dir string   // where the command is run; the current folder if empty
	Env []string // of the command, besides the environment of this process
}

// Do runs the go command, which $GO names if it is set, and returns its output.
func (t Toolchain) Do(ctx context.Context, args ...string) ([]byte, error) {
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = t.Dir
	cmd.Env = append(os.Environ(), t.Env...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %.1000s", args[0], err, errs.Bytes())
	}
	return out, nil
}

// Compile makes the test binary of a package as a file. flags are for go test.
func (t Toolchain) Compile(ctx context.Context, pkg, file string, flags ...string) error {
	args := append([]string{"test", "-c", "-o", file}, flags...)
	if _, err := t.Do(ctx, append(args, pkg)...); err != nil {
		return fmt.Errorf("%s: %w", pkg, err)
	}
	return nil
}

// Units are the figures of one run of a benchmark, by unit: "ns/op" and so on.
type Units map[string]float64

// A BenchRun is one call of a test binary.
type BenchRun struct {
	Binary string   // an absolute path
	Bench  string   // what -test.bench takes
	CPU    int      // GOMAXPROCS of the benchmarks; 1
	Dir    string   // where it runs; the folder of the binary if empty
	Env    []string // its environment; the environment of this process if nil
	Args   []string // more flags, as in -test.cpuprofile=FILE

	// Benchtime is how long to repeat each benchmark. 0 runs each once.
	Benchtime time.Duration
}

// Command returns the command that does the run. It counts allocations.
func (r BenchRun) Command(ctx context.Context) *exec.Cmd {
	benchtime := "1x"
	if r.Benchtime > 0 {
		benchtime = r.Benchtime.String()
	}
	args := append([]string{"-test.run=^$", "-test.bench=" + r.Bench, "-test.benchmem",
		"-test.benchtime=" + benchtime, "-test.cpu=" + strconv.Itoa(max(r.CPU, 1))}, r.Args...)
	cmd := exec.CommandContext(ctx, r.Binary, args...)
	cmd.Env = r.Env
	if cmd.Dir = r.Dir; cmd.Dir == "" {
		cmd.Dir = filepath.Dir(r.Binary)
	}
	return cmd
}

// Output does the run and returns the figures of each benchmark by its name,
// without "Benchmark" and the processors.
func (r BenchRun) Output(ctx context.Context) (map[string]Units, error) {
	out, err := r.Command(ctx).Output()
	if err != nil {
		return nil, r.Failed(err, out)
	}
	return ParseBench(string(out))
}

// Failed returns the error of a run whose command ended with err after it had
// written out.
func (r BenchRun) Failed(err error, out []byte) error {
	return fmt.Errorf("%s %s: %w: %.500s", filepath.Base(r.Binary), r.Bench, err, out)
}

// ParseBench reads what a test binary printed. Times are in nanoseconds.
func ParseBench(out string) (map[string]Units, error) {
	got := make(map[string]Units)
	r := benchfmt.NewReader(strings.NewReader(out), "benchmark output")
	for r.Scan() {
		res, ok := r.Result().(*benchfmt.Result)
		if !ok {
			continue // a configuration line, or a line that is none
		}
		figures := make(Units)
		for _, v := range res.Values {
			u, f := v.Unit, v.Value
			if v.OrigUnit != "" { // the reader turns nanoseconds into seconds
				u, f = v.OrigUnit, v.OrigValue
			}
			figures[u] = f
		}
		got[withoutCPUs(string(res.Name.Full()))] = figures
	}
	return got, r.Err()
}

// withoutCPUs cuts the suffix -2 that the testing package gives the names of
// benchmarks on two processors.
func withoutCPUs(name string) string {
	if i := strings.LastIndexByte(name, '-'); i >= 0 && strings.Trim(name[i+1:], "0123456789") == "" {
		return name[:i]
	}
	return name
}
