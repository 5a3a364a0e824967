// Package tools runs the load generators of the distribution, wrk and ab, and
// reads what they print.
//
// [Install] gets them; [Wrk] and [Ab] run them; a [Load] is what they found.
package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Load is what a generator says of its run.
type Load struct {
	Rate   float64 // answers per second
	Failed int64   // requests
	P99    time.Duration
}

// packages are what the programs are in, in the Debian family.
var packages = []struct{ program, pkg string }{{"wrk", "wrk"}, {"ab", "apache2-utils"}}

// Missing returns the packages of the programs that are not on the PATH.
func Missing() []string {
	var missing []string
	for _, p := range packages {
		if _, err := exec.LookPath(p.program); err != nil {
			missing = append(missing, p.pkg)
		}
	}
	return missing
}

// Install installs what is missing with apt-get, whose output goes to log. The
// error says what to do by hand.
func Install(ctx context.Context, log io.Writer) error {
	missing := Missing()
	if len(missing) == 0 {
		return nil
	}
	byHand := fmt.Sprintf("install %q to measure with wrk and ab", missing)
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("%s: %w", byHand, err)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s: only root can: sudo apt-get install %s", byHand, strings.Join(missing, " "))
	}
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: apt-get %s: %w", byHand, args[0], err)
		}
	}
	return nil
}

// Wrk loads the URL over keep-alive connections from two threads.
func Wrk(ctx context.Context, url string, conns int, d time.Duration) (Load, error) {
	out, err := output(ctx, "wrk", "-t2", "-c"+strconv.Itoa(conns), fmt.Sprintf("-d%ds", max(1, int(d.Seconds()))), "--latency", url)
	if err != nil {
		return Load{}, err
	}
	return ParseWrk(out)
}

// Ab sends that many requests, each over its own connection.
func Ab(ctx context.Context, url string, conns, requests int) (Load, error) {
	out, err := output(ctx, "ab", "-q", "-n", strconv.Itoa(requests), "-c", strconv.Itoa(conns), url)
	if err != nil {
		return Load{}, err
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
func ParseWrk(out []byte) (Load, error) {
	var l Load
	var err error
	if l.Rate, err = float(out, wrkRate); err != nil {
		return Load{}, fmt.Errorf("wrk: %w", err)
	}
	for _, re := range []*regexp.Regexp{wrkSocket, wrkStatus} {
		if l.Failed, err = count(out, re, l.Failed); err != nil {
			return Load{}, fmt.Errorf("wrk: %w", err)
		}
	}
	if m := wrkP99.FindSubmatch(out); m != nil {
		if l.P99, err = time.ParseDuration(string(m[1]) + string(m[2])); err != nil {
			return Load{}, fmt.Errorf("wrk: %w", err)
		}
	}
	return l, nil
}

// ParseAb reads the output of ab.
func ParseAb(out []byte) (Load, error) {
	var l Load
	var err error
	if l.Rate, err = float(out, abRate); err != nil {
		return Load{}, fmt.Errorf("ab: %w", err)
	}
	if !abComplete.Match(out) || !abFailed.Match(out) {
		return Load{}, errors.New("ab: no line of complete and failed requests")
	}
	for _, re := range []*regexp.Regexp{abFailed, abStatus} {
		if l.Failed, err = count(out, re, l.Failed); err != nil {
			return Load{}, fmt.Errorf("ab: %w", err)
		}
	}
	ms, err := count(out, abP99, 0)
	if err != nil {
		return Load{}, fmt.Errorf("ab: %w", err)
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
