package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// A toolLoad is the result of a run.
type toolLoad struct {
	Rate   float64 // answers per second
	Failed int64   // requests
	P99    time.Duration
}

// Wrk loads the URL over keep-alive connections from two threads.
func Wrk(ctx context.Context, url string, conns int, d time.Duration) (toolLoad, error) {
	out, err := output(ctx, "wrk", "-t2", "-c"+strconv.Itoa(conns), fmt.Sprintf("-d%ds", max(1, int(d.Seconds()))), "--latency", url)
	if err != nil {
		return toolLoad{}, err
	}
	return ParseWrk(out)
}

// Ab sends that many requests, each over its own connection.
func Ab(ctx context.Context, url string, conns, requests int) (toolLoad, error) {
	out, err := output(ctx, "ab", "-q", "-n", strconv.Itoa(requests), "-c", strconv.Itoa(conns), url)
	if err != nil {
		return toolLoad{}, err
	}
	return ParseAb(out)
}

func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil
}

var (
	wrkRate   = regexp.MustCompile(`(?m)^Requests/sec:\s+([0-9.]+)`)
	wrkSocket = regexp.MustCompile(`(?m)^\s+Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
	wrkStatus = regexp.MustCompile(`(?m)^\s+Non-2xx or 3xx responses: (\d+)`)
	wrkP99    = regexp.MustCompile(`(?m)^\s+99%\s+([0-9.]+)(us|ms|s|m)\s*$`)

	abRate     = regexp.MustCompile(`(?m)^Requests per second:\s+([0-9.]+)`)
	abComplete = regexp.MustCompile(`(?m)^Complete requests:\s+(\d+)`)
	abFailed   = regexp.MustCompile(`(?m)^Failed requests:\s+(\d+)`)
	abStatus   = regexp.MustCompile(`(?m)^Non-2xx responses:\s+(\d+)`)
	abP99      = regexp.MustCompile(`(?m)^\s+99%\s+(\d+)`)
)

// ParseWrk reads the output of wrk --latency.
func ParseWrk(out []byte) (toolLoad, error) {
	var l toolLoad
	var err error
	if l.Rate, err = float(out, wrkRate); err != nil {
		return toolLoad{}, fmt.Errorf("wrk: %w", err)
	}
	for _, re := range []*regexp.Regexp{wrkSocket, wrkStatus} {
		if l.Failed, err = count(out, re, l.Failed); err != nil {
			return toolLoad{}, fmt.Errorf("wrk: %w", err)
		}
	}
	if m := wrkP99.FindSubmatch(out); m != nil {
		if l.P99, err = time.ParseDuration(string(m[1]) + string(m[2])); err != nil {
			return toolLoad{}, fmt.Errorf("wrk: %w", err)
		}
	}
	return l, nil
}

// ParseAb reads the output of ab.
func ParseAb(out []byte) (toolLoad, error) {
	var l toolLoad
	var err error
	if l.Rate, err = float(out, abRate); err != nil {
		return toolLoad{}, fmt.Errorf("ab: %w", err)
	}
	if !abComplete.Match(out) || !abFailed.Match(out) {
		return toolLoad{}, errors.New("ab: no line of complete and failed requests")
	}
	for _, re := range []*regexp.Regexp{abFailed, abStatus} {
		if l.Failed, err = count(out, re, l.Failed); err != nil {
			return toolLoad{}, fmt.Errorf("ab: %w", err)
		}
	}
	ms, err := count(out, abP99, 0)
	if err != nil {
		return toolLoad{}, fmt.Errorf("ab: %w", err)
	}
	l.P99 = time.Duration(ms) * time.Millisecond
	return l, nil
}

func float(out []byte, re *regexp.Regexp) (float64, error) {
	m := re.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no line like %s in %.200q", re, out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// count adds the numbers of a line, which may be missing, to sum.
func count(out []byte, re *regexp.Regexp, sum int64) (int64, error) {
	m := re.FindSubmatch(out)
	for _, group := range m[min(1, len(m)):] {
		n, err := strconv.ParseInt(string(group), 10, 32)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
