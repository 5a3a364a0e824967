package main

import (
	"context"
	_ "embed" // for the source
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	return parseNative(out)
}

func parseNative(out []byte) (bytes int, m measurement, err error) {
	var got struct {
		Bytes     int
		Wall, CPU float64 // seconds
		Counter   int64
		Counts    []int64
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return 0, m, fmt.Errorf("%w: %.200q", err, out)
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	m, err = judged(got.Counter, got.Counts)
	m.wall, m.cpu = seconds(got.Wall), seconds(got.CPU)
	return got.Bytes, m, err
}
