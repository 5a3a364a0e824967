package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCloser closes processors that take their time, or fail.
func TestCloser(t *testing.T) {
	const never = -1
	f := func(name string, within, drained, joined time.Duration, disk *Spool, left int, keeps, releases error, want time.Duration, text string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var steps []string
				var log bytes.Buffer
				step := func(what string) { steps = append(steps, fmt.Sprint(what, " ", time.Since(began))) }
				after := func(d time.Duration) <-chan struct{} {
					c := make(chan struct{})
					switch {
					case d == 0:
						close(c)
					case d != never:
						time.AfterFunc(d, func() { close(c) })
					}
					return c
				}
				finish := make(chan struct{})
				c := closer{settings: &settings{disk: disk, log: newThrottledLogger(slog.New(slog.NewTextHandler(&log, nil)))}, env: closeEnv{
					drain: func() <-chan struct{} { step("drain"); return after(drained) },
					stop:  func() { step("stop") },
					join: func() {
						select {
						case <-after(joined):
						case <-finish:
						}
					},
					keep:    func() (Report, error) { step("keep"); return Report{Undelivered: left}, keeps },
					release: func(context.Context) error { step("release"); return releases },
				}}
				ctx, cancel := context.WithCancel(t.Context())
				if within != never {
					ctx, cancel = context.WithTimeout(t.Context(), within)
				}
				defer cancel()
				report, err := c.close(ctx)
				again, errAgain := c.close(ctx)
				close(finish)
				if report.Undelivered != left || again.Undelivered != left || errAgain != err {
					t.Errorf("got %+v, and then %+v, %v", report, again, errAgain)
				}
				if (err == nil) != (text == "") || err != nil && err.Error() != text {
					t.Errorf("got error %v, want %s", err, text)
				}
				if took := time.Since(began); took != want {
					t.Errorf("took %v, want %v: %q", took, want, steps)
				}
				var order []string
				for _, s := range steps {
					order = append(order, strings.Fields(s)[0])
				}
				if !slices.Equal(order, []string{"drain", "stop", "keep", "release"}) {
					t.Errorf("steps %q", steps)
				}
				if late := within != never && joined == never; late != strings.Contains(log.String(), "Send has not returned") {
					t.Errorf("logged %s", &log)
				}
			})
		})
	}
	full := errors.New("batch: spool is full")
	f("drained", never, time.Minute, time.Second, nil, 0, nil, nil, 61*time.Second, "")
	f("deadline", 10*time.Second, never, 0, nil, 3, nil, nil, 9950*time.Millisecond, "batch: 3 events are not delivered: context deadline exceeded")
	f("short deadline", 100*time.Millisecond, never, 0, nil, 3, nil, nil, 95*time.Millisecond, "batch: 3 events are not delivered: context deadline exceeded")
	f("time for the disk", 20*time.Second, never, 0, &Spool{}, 0, nil, nil, 18*time.Second, "")
	f("little time for the disk", 4*time.Second, never, 0, &Spool{}, 0, nil, nil, 3*time.Second, "")
	f("busy", 10*time.Second, never, never, nil, 3, nil, nil, 10*time.Second+joinGrace, "batch: 3 events are not delivered: context deadline exceeded")
	f("busy for a moment", 10*time.Second, never, 52*time.Millisecond, nil, 0, nil, nil, 10*time.Second+2*time.Millisecond, "")
	f("disk full", never, 0, 0, &Spool{}, 3, full, nil, 0, "batch: 3 events are not delivered: "+errGap.Error()+"\nbatch: spool is full")
	f("both fail", never, 0, 0, &Spool{}, 0, full, errAway, 0, "batch: spool is full\naway")
}
