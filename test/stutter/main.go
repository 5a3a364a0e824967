//go:build unix

// Command stutter runs a test program and stops it now and then, to find tests that depend on
// how fast the machine is:
//
//	go test -exec "$PWD/dist/stutter" ./...
//
// The program is stopped by SIGSTOP after a random time of up to 200 ms, for as long, again
// and again; its children, such as databases, and the clock go on. STUTTER is the seed of the
// times, which is printed to repeat a run; the exit status is the status of the program.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	longestRun  = 200 * time.Millisecond
	longestStop = 200 * time.Millisecond
)

func main() {
	code, err := run(os.Args[1:], os.Getenv("STUTTER"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "stutter:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func run(args []string, seed string) (code int, err error) {
	if len(args) == 0 {
		return 0, errors.New("no program; run go test -exec with this one")
	}
	number := rand.Uint64()
	if seed != "" {
		if number, err = strconv.ParseUint(seed, 10, 64); err != nil {
			return 0, fmt.Errorf("STUTTER: %w", err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	var waiting sync.WaitGroup
	waiting.Go(func() { ended <- cmd.Wait() })
	defer waiting.Wait()
	random := rand.New(rand.NewPCG(number, 0))
	for {
		select {
		case err := <-ended:
			return result(cmd, err, number)
		case <-time.After(time.Duration(random.Int64N(int64(longestRun)))):
		}
		// An error is one of a program that has ended, which Wait reports.
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.Int64N(int64(longestStop)))):
		}
		_ = cmd.Process.Signal(syscall.SIGCONT)
	}
}

// result returns the exit status of a program that has ended, and names the seed of one that failed.
func result(cmd *exec.Cmd, err error, seed uint64) (code int, _ error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		fmt.Fprintf(os.Stderr, "stutter: repeat this with STUTTER=%d\n", seed)
	}
	return max(code, -code), nil // killed by a signal: 1
}
