package main

import (
	"context"
	_ "embed" // for the source
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// source is the program that counts under locks of C.
//
//go:embed c/lock.c
var source []byte

// nativeSubjects returns the locks of C, having compiled them to a program in the
// folder. The error says why there are none.
func nativeSubjects(ctx context.Context, dir string) ([]subject, error) {
	file, program := filepath.Join(dir, "lock.c"), filepath.Join(dir, "locks")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return nil, err
	}
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return nil, errors.New("there is no C compiler, cc")
	}
	if out, err := exec.CommandContext(ctx, compiler, "-O2", "-pthread", "-o", program, file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var all []subject
	for _, s := range []struct{ name, kind string }{{"pthread_mutex (C)", "pthread"}, {"three states (C)", "three"}} {
		bytes, _, err := native(ctx, program, s.kind, 1, time.Millisecond)
		if err != nil {
			return nil, err
		}
		all = append(all, subject{name: s.name, bytes: bytes, threadsOnly: true, measure: func(ctx context.Context, workers int, _ bool, length time.Duration) (measurement, error) {
			_, m, err := native(ctx, program, s.kind, workers, length)
			return m, err
		}})
	}
	return all, nil
}

// native runs the program, and returns the size of the lock and what was done.
func native(ctx context.Context, program, kind string, workers int, length time.Duration) (int, measurement, error) {
	out, err := exec.CommandContext(ctx, program, kind, strconv.Itoa(workers), strconv.FormatInt(max(1, length.Milliseconds()), 10)).Output()
	if err != nil {
		return 0, measurement{}, fmt.Errorf("%s: %w", kind, err)
	}
	return parseNative(string(out), workers)
}

// parseNative reads the line that the program prints.
func parseNative(line string, workers int) (bytes int, m measurement, err error) {
	fields := strings.Fields(line)
	if len(fields) != 4+workers {
		return 0, m, fmt.Errorf("got %q, want %d numbers", line, 4+workers)
	}
	var numbers []float64
	for _, f := range fields {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil || !(n >= 0) {
			return 0, m, fmt.Errorf("got %q, want numbers", line)
		}
		numbers = append(numbers, n)
	}
	var counts []int64
	var sum int64
	for _, n := range numbers[4:] {
		counts = append(counts, int64(n))
		sum += int64(n)
	}
	if int64(numbers[3]) != sum {
		return 0, m, fmt.Errorf("%d workers counted to %.0f in %d acquisitions", workers, numbers[3], sum)
	}
	m = measurement{
		acquisitions: numbers[3],
		wall:         time.Duration(numbers[1] * float64(time.Second)),
		cpu:          time.Duration(numbers[2] * float64(time.Second)),
		jain:         jain(counts),
	}
	return int(numbers[0]), m, nil
}
