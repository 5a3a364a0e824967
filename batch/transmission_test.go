package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A testTransmission is a transmission with its environment, in the bubble of a test.
type testTransmission struct {
	*transmission
	counts    counts
	cancel    context.CancelFunc // ends sending
	abandoned bool               // Close has taken over
	sends     []string           // the events of each attempt
	calls     []string           // calls of the environment, and of OnDrop
}

// newTestTransmission makes a transmission of a chunk with n events, to a receiver that responds by answer.
func newTestTransmission(n int, s settings, answer func(events string) Outcome) *testTransmission {
	tr := &testTransmission{counts: newCounts()}
	s.retry.Initial, s.retry.Max, s.retry.MaxRetryAfter = time.Second, time.Second, time.Minute
	s.log = newThrottledLogger(slog.New(slog.DiscardHandler))
	s.sep = '\n'
	s.send = func(_ context.Context, b *Batch) Outcome {
		var all string
		for e := range b.Events() {
			all += string(e)
		}
		tr.sends = append(tr.sends, all)
		return answer(all)
	}
	s.onDrop = func(d Dropped) { tr.calls = append(tr.calls, fmt.Sprintf("dropped %s %v", join(d.Events), d.Reason)) }
	sh := &shipper{settings: &s, throttle: newThrottle(1), health: newHealth(), draining: make(chan struct{})}
	sh.sending, tr.cancel = context.WithCancel(context.Background())
	note := func(what string) { tr.calls = append(tr.calls, what) }
	sh.env = transmissionEnv{
		edit: func(do func(*counts)) bool {
			if !tr.abandoned {
				do(&tr.counts)
			}
			return !tr.abandoned
		},
		leave: func(*transmission) func() {
			began := time.Now()
			return func() { // a back-off is random, up to a bound
				if d := time.Since(began); d <= s.retry.Max {
					note("waited")
				} else {
					note(fmt.Sprint("waited ", d))
				}
			}
		},
		pause:   func(_ *lane, n int) { note(fmt.Sprintf("pause %+d", n)) },
		unsent:  func() uint64 { return uint64(n) },
		settled: func(chunks ...*chunk) { note("settled") },
		finish:  func(f *transmission) { note(fmt.Sprintf("finished with %d left", len(f.todo))) },
	}
	b := whole(sealed(n))
	tr.transmission = &transmission{shipper: sh, lane: &lane{}, whole: b, todo: []*Batch{b}}
	tr.counts.InFlight = uint64(n)
	return tr
}

func join(events [][]byte) (all string) {
	for _, e := range events {
		all += string(e)
	}
	return all
}

// left returns the events that are left to send.
func (tr *testTransmission) left() (all string) {
	for _, b := range slices.Backward(tr.todo) {
		for e := range b.Events() {
			all += string(e)
		}
	}
	return all
}

// want compares the attempts and the calls of the environment.
func (tr *testTransmission) want(t *testing.T, sends string, calls ...string) {
	t.Helper()
	if got := strings.Join(tr.sends, " "); got != sends {
		t.Errorf("sent %q, want %q", got, sends)
	}
	if !slices.Equal(tr.calls, calls) {
		t.Errorf("the transmission called %q, want %q", tr.calls, calls)
	}
	n := tr.counts
	if in := n.InFlight + n.Delivered + n.DroppedExpired + n.DroppedExhausted + n.Refused + n.DeadLettered; in != uint64(tr.whole.chunks[0].n) {
		t.Errorf("%d events are counted, want each once: %+v", in, n.Stats)
	}
	tr.sends, tr.calls = nil, nil
}

// holds makes a receiver respond out to batches with one of the events, and take others.
func holds(bad string, out Outcome) func(string) Outcome {
	return func(events string) Outcome {
		if strings.ContainsAny(events, bad) {
			return out
		}
		return Outcome{}
	}
}

// longer makes a receiver respond out to batches of more than n events.
func longer(n int, out Outcome) func(string) Outcome {
	return func(events string) Outcome {
		if len(events) > n {
			return out
		}
		return Outcome{}
	}
}

// first makes a receiver respond out to the first n attempts.
func first(n int, out Outcome) func(string) Outcome {
	return func(string) Outcome {
		if n--; n >= 0 {
			return out
		}
		return Outcome{}
	}
}

var (
	errAway = errors.New("away")
	refuses = Outcome{Verdict: VerdictBisect, Status: 400, Err: errors.New("400 Bad Request")}
	failing = Outcome{Verdict: VerdictRetry, Status: 500, Err: errors.New("500 Internal Server Error")}
)

// TestTransmission has transmissions that end, by what the receiver does.
func TestTransmission(t *testing.T) {
	f := func(name string, s settings, answer func(string) Outcome, sends string, calls ...string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTestTransmission(4, s, answer)
				tr.run()
				tr.want(t, sends, append(calls, "settled", "finished with 0 left")...)
				if tr.left() != "" || tr.counts.InFlight != 0 {
					t.Errorf("%q is left, %d events on the way", tr.left(), tr.counts.InFlight)
				}
				if _, err := tr.whole.chunks[0].receipt.poll(0, StateDelivered); tr.counts.Delivered == 4 && err != nil {
					t.Errorf("a ticket got %v", err)
				}
			})
		})
	}
	f("taken", settings{}, first(0, failing), "abcd")
	f("retry", settings{}, first(2, Outcome{Err: errAway}), "abcd abcd abcd", "waited", "waited")
	f("split", settings{}, longer(1, Outcome{Verdict: VerdictSplit, Err: errAway}), "abcd ab a b cd c d")
	f("too large", settings{}, holds("c", Outcome{Verdict: VerdictSplit, Err: errAway}), "abcd ab cd c d", "dropped c refused")
	f("bisect", settings{}, holds("c", refuses), "abcd ab c d", "dropped c refused")
	f("refuse", settings{}, first(1, Outcome{Verdict: VerdictRefuse, Err: errAway}), "abcd", "dropped abcd refused")
	f("some refused", settings{}, first(1, Outcome{Refused: []Refusal{{Index: 2, Reason: "bad"}, {Index: 9}, {Index: 2}}}), "abcd", "dropped c refused")
	f("some again", settings{}, first(1, Outcome{Refused: []Refusal{{Index: 1, Retry: true}, {Index: 2, Retry: true}}}), "abcd bc", "waited")
	f("exhausted", settings{retry: Retry{Attempts: 1}}, holds("c", failing), "abcd ab cd c d", "dropped c exhausted")
	f("expired", settings{retry: Retry{MaxElapsed: time.Nanosecond}}, func(string) Outcome {
		advance(time.Second)
		return failing
	}, "abcd", "dropped abcd expired")
	f("classify", settings{retry: Retry{Classify: func(o Outcome) Outcome { o.Verdict = VerdictRefuse; return o }}}, first(9, failing), "abcd", "dropped abcd refused")
}

// start runs the transmission in a goroutine of the bubble. end returns when it has ended.
func (tr *testTransmission) start() (end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tr.run()
	}()
	return func() { <-done }
}

// TestTransmissionEnds has Close end sending in a back-off. Nothing is settled.
func TestTransmissionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTransmission(4, settings{}, func(string) Outcome { return failing })
		tr.retry.Initial, tr.retry.Max = time.Hour, time.Hour
		end := tr.start()
		synctest.Wait()
		began := time.Now()
		close(tr.draining) // ends the first back-off, and makes the others short
		advance(time.Second)
		if n := len(tr.sends); n < 4 {
			t.Errorf("%d attempts in the first second of Close, want one each 250 ms or more", n)
		}
		tr.cancel()
		end()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the transmission ended %v after the end of sending", took-time.Second)
		}
		if last := tr.calls[len(tr.calls)-1]; tr.left() != "abcd" || last != "finished with 1 left" || slices.Contains(tr.calls, "settled") {
			t.Errorf("%q is left; the transmission called %q", tr.left(), tr.calls)
		}
	})
}

// TestTransmissionTakenOver has Close take the transmission over while Send does not return. What it
// returns then counts for nothing.
func TestTransmissionTakenOver(t *testing.T) {
	for _, out := range []Outcome{{}, refuses, {Verdict: VerdictSplit}, {Verdict: VerdictRefuse}, {Refused: []Refusal{{Index: 1}}}, failing} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			tr := newTestTransmission(4, settings{}, func(string) Outcome {
				<-release
				return out
			})
			end := tr.start()
			synctest.Wait()
			tr.abandoned = true
			tr.cancel()
			close(release)
			end()
			if tr.left() != "abcd" || tr.counts.InFlight != 4 || slices.Contains(tr.calls, "settled") {
				t.Errorf("%v: %q is left, %d on the way; the transmission called %q", out.Verdict, tr.left(), tr.counts.InFlight, tr.calls)
			}
		})
	}
}

// TestTransmissionPause waits for Retry.Max or for Resume.
func TestTransmissionPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTransmission(4, settings{}, first(2, Outcome{Verdict: VerdictPause, Err: errAway}))
		tr.retry.Max = time.Hour
		began := time.Now()
		end := tr.start()
		advance(time.Hour + time.Minute) // within the second pause
		tr.health.resume()
		end()
		if took := time.Since(began); took != time.Hour+time.Minute {
			t.Errorf("the transmission ended after %v, want an hour and a minute", took)
		}
		tr.want(t, "abcd abcd abcd", "pause +1", "waited", "pause -1", "pause +1", "waited", "pause -1", "settled", "finished with 0 left")
	})
}

// TestTransmissionRetryAfter waits as long as the receiver asks, up to Retry.MaxRetryAfter.
func TestTransmissionRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		tr := newTestTransmission(4, settings{}, first(1, Outcome{Verdict: VerdictRetry, Err: errAway, RetryAfter: time.Hour}))
		tr.run()
		if took := time.Since(began); took != tr.retry.MaxRetryAfter {
			t.Errorf("the next attempt came after %v, want a minute", took)
		}
		tr.want(t, "abcd abcd", "waited", "settled", "finished with 0 left")
	})
}

// TestTransmissionReceiverAtFault has a receiver that refuses everything: no event is given up
// until Resume says that the events are at fault.
func TestTransmissionReceiverAtFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTransmission(10, settings{}, func(string) Outcome { return refuses })
		end := tr.start()
		advance(time.Hour)
		if tr.counts.Refused != 0 || len(tr.left()) != 10 {
			t.Errorf("%d events were given up, %q is left", tr.counts.Refused, tr.left())
		}
		tr.health.resume()
		end()
		if tr.counts.Refused != 10 || tr.left() != "" {
			t.Errorf("after Resume, %d events were given up, %q is left", tr.counts.Refused, tr.left())
		}
	})
}

// TestTransmissionRecovers has a receiver that refuses everything for a minute.
func TestTransmissionRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		tr := newTestTransmission(10, settings{}, func(string) Outcome {
			if time.Since(began) < time.Minute {
				return refuses
			}
			return Outcome{}
		})
		tr.run()
		if tr.counts.Delivered != 10 {
			t.Errorf("%d of 10 delivered; the transmission called %q", tr.counts.Delivered, tr.calls)
		}
	})
}

// TestTransmissionRecoversMidway has a receiver that refuses everything, and is mended while
// an attempt is on the way: another lane hears of that before the refusal arrives. The
// refusal is of the receiver that was at fault, and no event is given up for it.
func TestTransmissionRecoversMidway(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for mended := 1; mended <= 40; mended++ { // the attempt that it is mended in
			t.Run(fmt.Sprintf("ordered %v %d", ordered, mended), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var tr *testTransmission
					attempts := 0
					tr = newTestTransmission(20, settings{ordered: ordered}, func(string) Outcome {
						if attempts++; attempts > mended {
							return Outcome{}
						}
						if attempts == mended {
							tr.health.add(&Batch{}, 0, true) // by another lane
						}
						return refuses
					})
					for range maxSuspects { // other lanes have shown what the receiver does
						tr.health.eventFailed()
					}
					tr.run()
					if tr.counts.Delivered != 20 {
						t.Errorf("%d of 20 delivered; sent %q; the transmission called %q", tr.counts.Delivered, tr.sends, tr.calls)
					}
				})
			})
		}
	}
}

// TestTransmissionSuspectLater: the first event of this lane that is refused raises no suspicion yet. The
// other lanes show that the receiver is at fault, and it is mended, before this lane sends the next. The
// refusal was part of their streak, so it says nothing about the event.
func TestTransmissionSuspectLater(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for before := range maxSuspects { // events that other lanes have had refused
			t.Run(fmt.Sprintf("ordered %v %d", ordered, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mended := false
					tr := newTestTransmission(20, settings{ordered: ordered}, func(string) Outcome {
						if mended {
							return Outcome{}
						}
						return refuses
					})
					for range before {
						tr.health.eventFailed()
					}
					edit := tr.env.edit
					tr.env.edit = func(do func(*counts)) bool {
						ok := edit(do)
						if !mended && tr.todo[0].suspected {
							for range maxSuspects {
								tr.health.eventFailed()
							}
							tr.health.add(&Batch{}, 0, true)
							mended = true
						}
						return ok
					}
					tr.run()
					if tr.counts.Delivered != 20 {
						t.Errorf("%d of 20 delivered; sent %q; the transmission called %q", tr.counts.Delivered, tr.sends, tr.calls)
					}
				})
			})
		}
	}
}

// TestTransmissionStreakEnds: this lane waits with some events that are refused, and meanwhile another
// lane finds that its own events were at fault, so the receiver is not suspect any more. Each of the
// events is sent once more, and not again and again.
func TestTransmissionStreakEnds(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for before := range maxSuspects { // events that other lanes have had refused
			t.Run(fmt.Sprintf("ordered %v %d", ordered, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sends, answer := 0, holds("abcdefghij", refuses)
					tr := newTestTransmission(20, settings{ordered: ordered}, func(events string) Outcome {
						if sends++; sends > 1000 {
							panic("it sends for ever")
						}
						return answer(events)
					})
					for range before {
						tr.health.eventFailed()
					}
					leave := tr.env.leave
					tr.env.leave = func(of *transmission) func() {
						rejoin := leave(of)
						return func() { rejoin(); tr.health.eventsAtFault() }
					}
					tr.run()
					if tr.counts.Delivered != 10 || tr.counts.Refused != 10 {
						t.Errorf("%d of 10 delivered, %d of 10 refused; sent %q; the transmission called %q", tr.counts.Delivered, tr.counts.Refused, tr.sends, tr.calls)
					}
				})
			})
		}
	}
}

// TestTransmissionTakenOverInDoubt ends when Close has taken over, although an event is to be sent again.
func TestTransmissionTakenOverInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTransmission(4, settings{ordered: true}, holds("abcd", refuses))
		edit := tr.env.edit
		tr.env.edit = func(do func(*counts)) bool {
			before := len(tr.todo)
			ok := edit(do)
			if tr.todo[0].suspected && len(tr.todo) > before { // it was cut
				for range maxSuspects {
					tr.health.eventFailed()
				}
				tr.health.add(&Batch{}, 0, true)
				tr.abandoned = true
				tr.cancel()
			}
			return ok
		}
		tr.run()
		tr.want(t, "abcd ab a b cd", "finished with 4 left")
	})
}

// TestTransmissionGapless stops at the first event that is missing, until Resume or Close.
func TestTransmissionGapless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settings{gapless: true, ordered: true}
		tr := newTestTransmission(4, s, holds("b", refuses))
		end := tr.start()
		advance(time.Hour)
		tr.want(t, "abcd ab a b", "dropped b refused", "pause +1")
		tr.health.resume()
		end()
		tr.want(t, "cd", "pause -1", "settled", "finished with 0 left")

		tr = newTestTransmission(4, s, holds("b", refuses))
		end = tr.start()
		advance(time.Hour)
		close(tr.draining)
		end()
		if tr.want(t, "abcd ab a b", "dropped b refused", "pause +1", "finished with 1 left"); !tr.halted || tr.left() != "cd" {
			t.Errorf("halted %v, %q is left, want cd", tr.halted, tr.left())
		}
	})
}

// TestTransmissionDeadLetter tries again until DeadLetter takes the events.
func TestTransmissionDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		tr := newTestTransmission(4, settings{dead: func(context.Context, Dropped) error {
			if calls++; calls < 3 {
				return errAway
			}
			return nil
		}}, holds("c", refuses))
		tr.run()
		tr.want(t, "abcd ab c d", "waited", "waited", "dropped c refused", "settled", "finished with 0 left")
		if calls != 3 || tr.counts.DeadLettered != 1 || tr.counts.Refused != 0 {
			t.Errorf("%d calls of DeadLetter, %+v", calls, tr.counts.Stats)
		}
	})
}

// TestTransmissionDisk sends nothing while its events cannot be read, and is written to disk
// after some attempts.
func TestTransmissionDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestStore(t, Spool{SyncEvery: time.Second, AfterAttempts: 2})
		stored := func(c *chunk, answer func(string) Outcome) *testTransmission {
			tr := newTestTransmission(3, settings{disk: d.disk}, answer)
			tr.store, tr.whole.chunks[0], tr.whole.parts[0].chunk = d.store, c, c
			return tr
		}
		away, began, read := first(2, failing), time.Now(), time.Duration(0)
		tr := stored(d.onDiskOnly(t, 3), func(events string) Outcome {
			if read == 0 {
				read = time.Since(began)
			}
			return away(events)
		})
		d.log.fail = fails("read", 2, errIO)
		tr.run()
		if read != 3*diskRetry {
			t.Errorf("the first attempt came after %v, want one when the events can be read", read)
		}
		tr.want(t, "abc abc abc", "waited", "waited", "settled", "finished with 0 left")
		if d.want(t); len(d.log.acked) != 2 {
			t.Errorf("%d records acknowledged, want the events and the note", len(d.log.acked))
		}

		tr = stored(sealed(3), first(3, failing))
		d.log.fail = fails("append", 1, spool.ErrFull)
		tr.run()
		d.want(t, "broken true")
		if c := tr.whole.chunks[0]; c.written.Load() != 3 || tr.counts.Delivered != 3 {
			t.Errorf("%d events written, %d delivered, want 3: a full disk stops nothing", c.written.Load(), tr.counts.Delivered)
		}

		tr = stored(d.onDiskOnly(t, 3), first(0, failing))
		d.log.fail = fails("read", -1, errIO)
		end := tr.start()
		advance(time.Second)
		tr.cancel()
		end()
		tr.want(t, "", "finished with 1 left")
	})
}
