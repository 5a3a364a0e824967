package app

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestRepeated has signals with the times at which they come. Two SIGTERM at about the same
// time are one; an interrupt is never a repetition, and ends what SIGTERM has begun to end.
func TestRepeated(t *testing.T) {
	type sent struct {
		sig os.Signal
		at  time.Duration
	}
	f := func(signals []sent, want ...os.Signal) {
		t.Helper()
		in, times := make(chan os.Signal, len(signals)), make(chan time.Time, len(signals))
		start := time.Now()
		for _, s := range signals {
			in <- s.sig
			if s.sig == syscall.SIGTERM {
				times <- start.Add(s.at)
			}
		}
		out, end := repeated(in, func() time.Time { return <-times })
		for i, w := range want {
			if got := <-out; got != w {
				t.Errorf("signal %d: got %v, want %v", i, got, w)
			}
		}
		end()
		select {
		case sig := <-out:
			t.Errorf("got %v as well", sig)
		default:
		}
	}
	const ms = time.Millisecond
	f([]sent{{syscall.SIGTERM, 0}, {syscall.SIGTERM, 2 * ms}, {syscall.SIGTERM, 499 * ms}, {syscall.SIGTERM, 500 * ms}}, syscall.SIGTERM, syscall.SIGTERM)
	f([]sent{{syscall.SIGTERM, 0}, {syscall.SIGINT, 0}, {syscall.SIGINT, 0}}, syscall.SIGTERM, syscall.SIGINT, syscall.SIGINT)
	f([]sent{{syscall.SIGINT, 0}, {syscall.SIGTERM, 1 * ms}, {syscall.SIGHUP, 0}}, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}
