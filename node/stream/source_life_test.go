package stream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// numbers adds messages whose bodies are the numbers from first on.
func (s *broker) numbers(lane int32, first, n int) {
	for i := range n {
		s.add(lane, "", fmt.Sprint(first+i))
	}
}

// source returns a document of a source with more fields, and of what takes its messages.
func source(fields string) string {
	return "- {kind: mem, name: s, " + fields + "retry: {threshold: 2, backoff: {initial: 1ms, max: 5ms}}, ports: {out: [{name: t}]}}\n- {kind: take, name: t}\n"
}

func TestAReloadKeepsTheConnection(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		r := start(t, s, source(""), nil)
		for i := range 20 {
			s.numbers(0, 10*i, 10)
			r.load(source("") + fmt.Sprintf("- {kind: nop, name: n%d}\n", i))
		}
		r.until("all to be settled", s.settledAll)
		s.mu.Lock()
		connects := s.mu.connects
		s.mu.Unlock()
		if connects != 1 || len(r.got()) != 200 {
			t.Errorf("got %d connections and %d messages, want 1 and 200", connects, len(r.got()))
		}
		r.load(source("topic: other, "))
		r.until("another connection", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.mu.connects == 2
		})
		s.numbers(0, 200, 1)
		r.until("all to be settled", s.settledAll)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.connects != 2 || s.mu.most != 1 || s.mu.closes != 1 {
			t.Errorf("got %d connections, %d together, %d closed; want 2, 1, 1", s.mu.connects, s.mu.most, s.mu.closes)
		}
	})
}

// TestAReloadWaitsForWhatHasBegun lets processes of the old settings go on, and the new
// reader connects when they have ended.
func TestAReloadWaitsForWhatHasBegun(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		release := make(chan struct{})
		var began atomic.Int32
		r := start(t, s, source(""), func(ctx context.Context, _ string, v value.Value) error {
			if began.Add(1) == 1 {
				<-release
			}
			return nil
		})
		s.numbers(0, 0, 1)
		r.until("a process to begin", func() bool { return began.Load() == 1 })
		r.load(source("topic: other, "))
		s.numbers(0, 1, 3)
		s.mu.Lock()
		if s.mu.connects != 1 {
			t.Errorf("the new reader connected before the old one let go")
		}
		s.mu.Unlock()
		close(release)
		r.until("all to be settled", s.settledAll)
		if n := began.Load(); n != 4 {
			t.Errorf("%d processes for 4 messages", n)
		}
	})
}

func TestADrainWaitsForProcesses(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		var began atomic.Int32
		r := start(t, s, source(""), func(context.Context, string, value.Value) error {
			began.Add(1)
			<-time.After(50 * time.Millisecond)
			return nil
		})
		s.numbers(0, 0, 1)
		r.until("a process to begin", func() bool { return began.Load() == 1 })
		r.shutdown(5 * time.Second)
		if !s.settledAll() {
			t.Error("the message is not settled")
		}
	})
}

func TestADrainEndsWithTheGrace(t *testing.T) {
	for name, traits := range systems {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBroker(traits)
				var began atomic.Int32
				r := start(t, s, source(""), func(ctx context.Context, _ string, _ value.Value) error {
					began.Add(1)
					<-ctx.Done()
					return context.Cause(ctx)
				})
				s.numbers(0, 0, 10)
				r.until("processes to begin", func() bool { return began.Load() > 0 })
				at := time.Now()
				r.shutdown(100 * time.Millisecond)
				if took := time.Since(at); took > 500*time.Millisecond {
					t.Errorf("the drain took %v", took)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.mu.connected != 0 || s.mu.held != 0 && !s.traits.Positions {
					t.Errorf("%d readers are connected, %d messages held", s.mu.connected, s.mu.held)
				}
				for _, rec := range s.mu.lanes[0] {
					if rec.done || s.mu.committed[0] > 0 {
						t.Error("a message counts as settled")
					}
				}
			})
		})
	}
}

func TestAStuckMessageDoesNotStopOthers(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		if s.traits.Order != stream.OrderNone {
			s.traits.Order = stream.OrderNone
		}
		s.add(0, "", `"poison"`)
		s.numbers(0, 1, 50)
		r := start(t, s, source(""), func(_ context.Context, port string, v value.Value) error {
			if body, _ := v.Get("body"); body.String() == "poison" {
				return errors.New("no")
			}
			return nil
		})
		done := func() int {
			n := 0
			for _, text := range r.got() {
				if text != "in poison" {
					n++
				}
			}
			return n
		}
		r.until("the others to be done", func() bool { return done() == 50 })
		r.until("the log to have it", func() bool { return strings.Contains(r.log.String(), "a message is stuck") })
		s.mu.Lock()
		if s.traits.Positions && s.mu.committed[0] > 0 {
			t.Errorf("committed %d, past the message that is stuck", s.mu.committed[0])
		}
		s.mu.Unlock()
		r.load(strings.Replace(source(""), "out: [{name: t}]", "out: [{name: t}], error: [{name: t, port: dead}]", 1))
		r.until("the dead letter", s.settledAll)
	})
}

func TestAPoisonedBatchRunsInHalves(t *testing.T) {
	for _, order := range []string{"none", "key", "total"} {
		each(t, func(t *testing.T, s *broker) {
			const n = 1000
			s.numbers(0, 0, n)
			var runs, dead atomic.Int32
			r := start(t, s, strings.Replace(letters, "name: s,", "name: s, order: "+order+", max_in_flight: 1000, batch: {count: 1000, linger: 10s},", 1),
				func(_ context.Context, port string, v value.Value) error {
					if port == "dead" {
						dead.Add(1)
						return nil
					}
					runs.Add(1)
					for _, e := range v.Elems() {
						if body, _ := e.Get("body"); body.String() == "617" {
							return errors.New("no")
						}
					}
					return nil
				})
			r.until("all to be settled", s.settledAll)
			if runs.Load() > 3+20 || dead.Load() != 1 {
				t.Errorf("got %d runs and %d dead letters", runs.Load(), dead.Load())
			}
		})
	}
}

// TestAnUndecodableMessageKeepsItsPlace has batches with undecodable messages: messages of
// the same queue wait for the dead letter, which waits for the ones before it.
func TestAnUndecodableMessageKeepsItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		traits stream.Traits
		order  string
		want   []string
	}{
		"total": {systems["total"], "total", []string{"in [1 2]", "dead {", "in [3]", "dead [", "dead }", "in [4 5]"}},
		"lanes": {systems["log"], "key", []string{"in [1 2]", "dead {", "in [3]", "dead [", "dead }", "in [4 5]"}},
		"none":  {systems["socket"], "none", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBroker(c.traits)
			s.add(0, "k", "1", "2", "{", "3", "[", "}", "4", "5")
			var under, during atomic.Int32
			doc := strings.Replace(letters, "name: s,", "name: s, order: "+c.order+", batch: {count: 20, linger: 20ms},", 1)
			r := start(t, s, doc, func(_ context.Context, port string, _ value.Value) error {
				if port == "dead" {
					under.Add(1)
					<-time.After(20 * time.Millisecond)
					under.Add(-1)
				} else if under.Load() > 0 {
					during.Add(1)
				}
				return nil
			})
			r.until("all to be answered", func() bool {
				return strings.Count(fmt.Sprint(r.got()), "dead") == 3 && strings.Contains(fmt.Sprint(r.got()), "5")
			})
			var got []string
			for _, text := range r.got() {
				before, _, _ := strings.Cut(text, " undecodable")
				got = append(got, before)
			}
			if c.want != nil && !slices.Equal(got, c.want) || during.Load() > 0 && c.want != nil {
				t.Errorf("got %q, want %q; %d while a dead letter was on its way", got, c.want, during.Load())
			}
		})
	}
}

func TestDeadLettersAreTriedUntilTheyAreTaken(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		s.add(0, "", "{")
		var tries atomic.Int32
		r := start(t, s, letters, func(_ context.Context, port string, v value.Value) error {
			e := node.Describe(v.AsError())
			if body, _ := e.Data.Get("body"); body.String() != "{" || e.Status != 422 {
				t.Errorf("got %v of status %d", e.Data, e.Status)
			}
			if tries.Add(1) < 10 {
				return errors.New("not yet")
			}
			return nil
		})
		r.until("it to be taken", s.settledAll)
		if tries.Load() != 10 {
			t.Errorf("tried %d times", tries.Load())
		}
	})
}

func TestAReaderThatPanicsConnectsAgain(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		r := start(t, s, source(""), nil)
		s.mu.Lock()
		s.mu.panics = true
		s.change()
		s.mu.Unlock()
		s.numbers(0, 0, 3)
		r.until("all to be settled", s.settledAll)
		if !strings.Contains(r.log.String(), "panic in a connector") {
			t.Error("the log does not have it")
		}
	})
}

func TestASystemThatIsDownAtStart(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		s.mu.refuse = errors.New("connection refused")
		r := start(t, s, source(""), nil)
		if err := r.finite.Load().Finite.(node.Readier).Ready(); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("ready: %v", err)
		}
		s.mu.Lock()
		s.mu.refuse = nil
		s.mu.Unlock()
		s.numbers(0, 0, 3)
		r.until("all to be settled", s.settledAll)
		if err := r.finite.Load().Finite.(node.Readier).Ready(); err != nil {
			t.Error(err)
		}
	})
}

func TestARefusalStopsTheStart(t *testing.T) {
	s := newBroker(stream.Traits{})
	r := start(t, s, source(""), nil)
	s2 := newBroker(stream.Traits{})
	s2.mu.refuse = &stream.RefusedError{Field: "auth.password", Err: errors.New("wrong password")}
	other := start(t, s2, "- {kind: nop, name: n}\n", nil)
	_, err := other.apply("- kind: mem\n  name: s\n  auth:\n    password: secret123\n")
	if err == nil || !strings.Contains(err.Error(), "auth.password") || !strings.Contains(err.Error(), "wrong password") || strings.Contains(err.Error(), "secret123") {
		t.Errorf("got %v", err)
	}
	_ = r
}

func TestFindings(t *testing.T) {
	s := newBroker(stream.Traits{Raw: true})
	r := start(t, s, "- {kind: nop, name: n}\n", nil)
	for fields, want := range map[string]string{
		"decode: json":                  "F2001",
		"checkpoint: {file: x}":         "F2001",
		"key: self.x":                   "key is used with order: key only",
		"order: key, key: 'self.'":      "the expression ends too early",
		"max_in_flight: 0":              "F2004",
		"retry: {when: 'self ='}":       "there is no \"=\" in expressions",
		"batch: {count: 0}":             "F2004",
		"retry: {backoff: {jitter: 2}}": "F2004",
		"order: sometimes":              "F2005",
		"batch: {cuont: 3}":             "batch.cuont: unknown field",
	} {
		list, err := r.apply("- {kind: mem, name: s, " + fields + "}\n")
		if err != nil || !strings.Contains(fmt.Sprint(list), want) {
			t.Errorf("%s: got %v %v, want %q", fields, list, err, want)
		}
	}
}

// resuming makes the broker one whose positions are kept in a file.
type resuming struct{ *brokerReader }

func (r resuming) Position(m stream.Mark) (lane, position string) {
	return fmt.Sprint(m.Lane), fmt.Sprint(m.Offset)
}

func (r resuming) Resume(positions map[string]string) error {
	r.broker.mu.Lock()
	defer r.broker.mu.Unlock()
	for lane, position := range positions {
		var l, at int
		if _, err := fmt.Sscan(lane+" "+position, &l, &at); err != nil {
			return fmt.Errorf("position %q: %w", position, err)
		}
		r.broker.mu.committed[int32(l)] = at
	}
	return nil
}

func TestCheckpoints(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "positions.json")
	document := "- {kind: mem, name: s, checkpoint: {file: " + file + ", interval: 1ms}, ports: {out: [{name: t}]}}\n- {kind: take, name: t}\n"
	fresh := func() *broker {
		s := newBroker(stream.Traits{Lanes: true, Positions: true, Checkpoints: true})
		s.numbers(0, 0, 10)
		s.numbers(1, 10, 10)
		return s
	}
	first := fresh()
	r := start(t, first, document, nil)
	r.until("all to be settled", first.settledAll)
	link := filepath.Join(t.TempDir(), "link") // a check does not see that it is the same folder
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	another := strings.NewReplacer("name: s", "name: s2", folder, link).Replace(document[:strings.Index(document, "\n")+1])
	if _, err := r.apply(document + another); err == nil || !strings.Contains(err.Error(), `checkpoint.file: another program keeps its positions there`) {
		t.Errorf("two sources of one file: %v", err)
	}
	r.load(document + "- {kind: nop, name: n}\n")
	r.shutdown(time.Second)
	second := fresh()
	second.numbers(1, 20, 1)
	r = start(t, second, document, nil)
	r.until("the rest to be settled", second.settledAll)
	r.want("in 20")
	r.shutdown(time.Second)
	for text, want := range map[string]string{
		"{":                            "is damaged",
		"{}":                           "is damaged",
		`{"positions": {"0": "zero"}}`: `position "zero"`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := start(t, fresh(), "- {kind: nop, name: n}\n", nil)
		if _, err := r.apply(document); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "checkpoint.file") {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestPositionsThatCannotBeKept ends a source although its last positions cannot be kept,
// and says so.
func TestPositionsThatCannotBeKept(t *testing.T) {
	serve := func(ends bool) *run {
		folder := filepath.Join(t.TempDir(), "positions")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		s := newBroker(stream.Traits{Lanes: true, Positions: true, Checkpoints: true})
		s.ends = ends
		s.numbers(0, 0, 10)
		return start(t, s, "- {kind: mem, name: s, checkpoint: {file: "+filepath.Join(folder, "s.json")+"}, ports: {out: [{name: t}]}}\n- {kind: take, name: t}\n",
			func(context.Context, string, value.Value) error { return os.RemoveAll(folder) })
	}
	r := serve(true)
	finite := r.finite.Load()
	select {
	case <-finite.Finished():
	case <-time.After(10 * time.Second):
		t.Fatalf("it does not end\n%.1000s", r.log.String())
	}
	for _, when := range []string{"before", "after"} {
		if err := finite.Progress().Err; err == nil || !strings.Contains(err.Error(), "the last positions are not kept") {
			t.Errorf("%s the shutdown: %v", when, err)
		}
		r.shutdown(5 * time.Second)
	}
	r = serve(false)
	r.until("the messages", func() bool { return len(r.got()) == 10 })
	r.shutdown(5 * time.Second)
	if n := strings.Count(r.log.String(), "settling messages"); n > 10 {
		t.Errorf("it logged %d times that positions are not kept", n)
	}
}

func TestASourceThatEnds(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		s.ends = true
		s.numbers(0, 0, 100)
		s.add(0, "", "{")
		r := start(t, s, strings.Replace(letters, "name: s,", "name: s, batch: {count: 7, linger: 20ms},", 1), nil)
		finite := r.finite.Load()
		select {
		case <-finite.Finished():
		case <-time.After(10 * time.Second):
			t.Fatal("it does not end")
		}
		if p := finite.Progress(); !finite.Ends() || p.Messages != 101 || p.DeadLetters != 1 || p.Err != nil || !s.settledAll() {
			t.Errorf("got %+v", p)
		}
		r.load(letters) // another reader of other settings reads again
	})
}

// TestALaterNodeThatFailsToServe brings the source back that was replaced.
func TestALaterNodeThatFailsToServe(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		bad := &node.Def{
			Kind: "bad", Summary: "Fails.", Page: node.Page{Example: "kind: bad\n"}, Out: []node.Port{{Name: "out", Doc: "None."}},
			New: func(*node.Init) (node.Node, error) { return badTrigger{}, nil },
		}
		r := startWith(t, s, source(""), nil, bad)
		for _, fields := range []string{"", "topic: other, "} {
			for _, document := range []string{source(fields) + "- {kind: bad, name: b}\n", "- {kind: bad, name: b}\n" + source(fields)} {
				if _, err := r.apply(document); err == nil {
					t.Fatal("it was served")
				}
				s.numbers(0, 0, 5)
				r.until("all to be settled", s.settledAll)
			}
		}
		if n := len(r.got()); n != 20 {
			t.Errorf("got %d messages", n)
		}
	})
}

type badTrigger struct{}

func (badTrigger) Receive(node.Process, node.Packet) node.Result { return node.None() }
func (badTrigger) Serve(node.Starter) error                      { return errors.New("no") }

// TestReleasedLanes lets go of a lane while one of its messages runs and others wait.
func TestReleasedLanes(t *testing.T) {
	s := newBroker(stream.Traits{Lanes: true, Positions: true, Order: stream.OrderKey})
	s.numbers(0, 0, 5)
	s.numbers(1, 10, 1)
	began, release := make(chan string, 10), make(chan struct{})
	r := start(t, s, source(""), func(_ context.Context, _ string, v value.Value) error {
		body, _ := v.Get("body")
		began <- body.String()
		if n, _ := body.AsInt(); n < 10 {
			<-release
		}
		return nil
	})
	for range 2 {
		<-began
	}
	r.until("the other lane to be committed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.mu.committed[1] == 1
	})
	s.mu.Lock()
	host := s.mu.host
	s.mu.Unlock()
	held := 0
	host.InFlight(func(*stream.Message) { held++ })
	if held != 5 {
		t.Errorf("%d messages are held, want 5", held)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if marks := host.Release(ended, []int32{1, 7}); len(marks) != 1 || marks[0].Offset != 1 {
		t.Errorf("got marks %v", marks)
	}
	marks := make(chan []stream.Mark)
	go func() { marks <- host.Release(context.Background(), []int32{0}) }()
	r.until("what has not begun to be forgotten", func() bool {
		held = 0
		host.InFlight(func(*stream.Message) { held++ })
		return held == 1
	})
	close(release)
	if got := <-marks; len(got) != 1 || got[0].Offset != 1 {
		t.Errorf("got marks %v, want the one message that ran", got)
	}
	held = 0
	host.InFlight(func(*stream.Message) { held++ })
	if held != 0 || len(began) != 0 {
		t.Errorf("%d messages are held, %d began", held, len(began))
	}
}

// TestReleasedLanesAreKept writes how far a released lane was into the file of positions.
func TestReleasedLanesAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "positions.json")
	s := newBroker(stream.Traits{Lanes: true, Positions: true, Checkpoints: true})
	s.numbers(0, 0, 5)
	s.numbers(1, 10, 1)
	r := start(t, s, source("checkpoint: {file: "+file+", interval: 1h}, "), nil)
	r.until("all to be answered", func() bool { return len(r.got()) == 6 })
	s.mu.Lock()
	host := s.mu.host
	s.mu.Unlock()
	r.until("all to be settled", func() bool {
		held := 0
		host.InFlight(func(*stream.Message) { held++ })
		return held == 0
	})
	if marks := host.Release(t.Context(), []int32{0}); len(marks) != 1 || marks[0].Offset != 5 {
		t.Errorf("got marks %v", marks)
	}
	r.until("the position to be kept", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), `"0": "5"`)
	})
}

// TestAnswersArePassedOn lets errors answer those who asked, and only those.
func TestAnswersArePassedOn(t *testing.T) {
	s := newBroker(stream.Traits{Order: stream.OrderKey, Lanes: true, Redelivers: true})
	s.asked = true
	s.add(0, "ask", "1", `"bad"`, "{", "2")
	s.add(1, "", `"bad"`)
	r := start(t, s, strings.Replace(source(""), "threshold: 2", "threshold: 0", 1), func(_ context.Context, _ string, v value.Value) error {
		if body, _ := v.Get("body"); body.String() == "bad" {
			return errors.New("no")
		}
		return nil
	})
	r.until("the last to be answered", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.mu.answers) == 4
	})
	r.until("the one that did not ask to be stuck", func() bool { return strings.Contains(r.log.String(), "a message is stuck") })
	s.mu.Lock()
	defer s.mu.Unlock()
	got := strings.Join(s.mu.answers, "\n")
	for i, want := range []string{"0/1 null", "0/2 no", "0/3 undecodable", "0/4 null"} {
		if !strings.HasPrefix(s.mu.answers[i], want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if s.mu.lanes[1][0].done {
		t.Error("the message that did not ask is settled")
	}
}

// TestSettlingThatHangs connects again when a system does not answer.
func TestSettlingThatHangs(t *testing.T) {
	for name, traits := range systems {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBroker(traits)
				s.mu.stalls = true
				s.numbers(0, 0, 10)
				r := start(t, s, source(""), nil)
				at := time.Now()
				for !s.settledAll() && time.Since(at) < time.Hour {
					<-time.After(time.Second)
				}
				if took := time.Since(at); took > time.Minute {
					t.Errorf("it took %v\n%s", took, r.log.String())
				}
				r.shutdown(5 * time.Second)
			})
		})
	}
}

// TestProgressWithoutOpen asks a source that has not opened, as another node refuses to.
func TestProgressWithoutOpen(t *testing.T) {
	r := start(t, newBroker(stream.Traits{}), "- {kind: nop, name: n}\n", nil)
	if _, err := r.apply("- {kind: mem, name: s, ports: {out: [{name: f}]}}\n- {kind: file_sink, name: f, path: /dev/null}\n"); err == nil {
		t.Error("it starts")
	}
	finite := r.finite.Load()
	if p := finite.Progress(); p != (node.Progress{}) {
		t.Errorf("got %+v", p)
	}
	if err := finite.Finite.(node.Readier).Ready(); err != nil {
		t.Error(err)
	}
}

// TestABatchIsReadToItsEnd holds a batch, so that there is room for the rest of the next
// one, and not for a quarter of all messages: that batch must not linger.
func TestABatchIsReadToItsEnd(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		held := func(n int) func() bool {
			return func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.mu.held == n
			}
		}
		release := make(chan struct{})
		r := start(t, s, source("max_in_flight: 16, batch: {count: 8, linger: 1h}, "), func(context.Context, string, value.Value) error {
			<-release
			return nil
		})
		s.numbers(0, 0, 8)
		r.until("a batch to be read", held(8))
		s.numbers(0, 8, 6)
		r.until("most of the next batch to be read", held(14))
		s.numbers(0, 14, 2)
		r.until("the rest of it to be read", held(16))
		close(release)
		r.until("all to be settled", s.settledAll)
	})
}

// TestBatchesInFlight: without max_in_flight, four batches are read.
func TestBatchesInFlight(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		release := make(chan struct{})
		r := start(t, s, source("batch: {count: 100}, "), func(context.Context, string, value.Value) error {
			<-release
			return nil
		})
		s.numbers(0, 0, 1000)
		most := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.mu.mostHeld
		}
		r.until("four batches to be read", func() bool { return most() >= 400 })
		close(release)
		r.until("all to be settled", s.settledAll)
	})
}
