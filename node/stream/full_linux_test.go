package stream_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// TestPositionsOnAFullDisk keeps positions on a file system that is full for a while: the
// file of before stays, the log says why, and with room it goes on. A job that ends before
// that fails. Where the test may not mount a file system, TestPositionsThatCannotBeKept is
// all there is.
func TestPositionsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Logf("no small file system: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	file, filler := filepath.Join(dir, "s.json"), filepath.Join(dir, "filler")
	document := "- {kind: mem, name: s, checkpoint: {file: " + file + ", interval: 10ms}, ports: {out: [{name: t}]}}\n- {kind: take, name: t}\n"
	kept := func() string {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return "{" + regexp.MustCompile(`"positions":\{[^}]*\}`).FindString(strings.Join(strings.Fields(string(text)), "")) + "}"
	}
	fill := func() {
		t.Helper()
		if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("filling the disk: %v", err)
		}
	}

	s := newBroker(stream.Traits{Lanes: true, Positions: true, Checkpoints: true})
	s.numbers(0, 0, 10)
	r := start(t, s, document, nil)
	r.until("the first position", func() bool { return kept() == `{"positions":{"0":"10"}}` })
	fill()
	s.numbers(0, 10, 10)
	r.until("the log to have it", func() bool { return strings.Contains(r.log.String(), "no space left on device") })
	r.until("all to be answered", func() bool { return len(r.got()) == 20 })
	if got := kept(); got != `{"positions":{"0":"10"}}` {
		t.Errorf("on the full disk the file has %s", got)
	}
	if !strings.Contains(r.log.String(), "they may come again") || !strings.Contains(r.log.String(), file) {
		t.Errorf("got the log %s", r.log.String())
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r.until("the position to be kept", func() bool { return kept() == `{"positions":{"0":"20"}}` })

	fill()
	s.numbers(0, 20, 10)
	r.until("the rest to be answered", func() bool { return len(r.got()) == 30 })
	r.shutdown(time.Second)
	if got := kept(); got != `{"positions":{"0":"20"}}` {
		t.Errorf("after a shutdown on the full disk the file has %s", got)
	}
	job := newBroker(stream.Traits{Lanes: true, Positions: true, Checkpoints: true})
	job.ends = true
	job.numbers(0, 0, 30)
	r = start(t, job, document, func(context.Context, string, value.Value) error { return nil })
	finite := r.finite.Load()
	select {
	case <-finite.Finished():
	case <-time.After(20 * time.Second):
		t.Fatalf("it does not end\n%s", r.log.String())
	}
	if n := len(r.got()); n != 10 {
		t.Errorf("%d messages came again, want the 10 whose position is not kept", n)
	}
	if err := finite.Progress().Err; err == nil || !strings.Contains(err.Error(), "the last positions are not kept") || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("the job ended with %v", err)
	}
}
