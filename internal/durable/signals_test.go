package durable_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	waits = `
- {kind: begin, name: t, ports: {out: [{name: h}]}}
- {kind: hold, name: h}
`
	waitsOfChildren = `
- {kind: begin, name: t, ports: {out: [{name: e}]}}
- {kind: each, name: e, ports: {out: [{name: h}]}}
- {kind: hold, name: h}
`
)

// wait is one of the waits that a packet for a hold has: one after the other.
func wait(event, key string, timeout time.Duration) value.Value {
	return value.List(value.String(event), value.String(key), value.Int(int64(timeout)))
}

// A holdNode waits for what its payload lists, and answers with what has come: "late" for a time.
type holdNode struct{ *world }

func (n holdNode) Receive(p node.Process, pkt node.Packet) node.Result {
	return n.next(p, pkt.Payload, 0, nil)
}

func (n holdNode) next(p node.Process, all value.Value, i int, got []value.Value) node.Result {
	if i == all.Len() {
		return node.Answer(value.List(got...))
	}
	run, _ := node.RunOf(p)
	event, _ := all.At(i).At(0).AsString()
	key, _ := all.At(i).At(1).AsString()
	timeout, _ := all.At(i).At(2).AsInt()
	w := run.Wait(node.Wait{Event: event, Key: key, Timeout: time.Duration(timeout), Token: n.tokens != nil})
	if n.tokens != nil && !run.Replays() {
		n.tokens <- w.Token()
	}
	return w.Await(func(p node.Process, resp node.Response) node.Result {
		switch {
		case resp.IsError():
			return node.Respond(resp)
		case resp.None:
			resp.Payload = value.String("late")
		}
		return n.next(p, all, i+1, append(got[:len(got):len(got)], resp.Payload))
	})
}

// signal sends a signal whose payload is its id.
func (w *world) signal(event, key, id string) error {
	return w.send(node.Signal{Event: event, Key: key, ID: id, Payload: value.String(id), Keep: time.Hour})
}

func (w *world) send(s node.Signal) error {
	w.mu.Lock()
	to := w.signals
	w.mu.Unlock()
	s.Namespace = "default"
	return to.Signal(w.t.Context(), s)
}

// signalled is signal of what is not refused.
func (w *world) signalled(event, key, id string) {
	w.t.Helper()
	if err := w.signal(event, key, id); err != nil {
		w.t.Fatalf("signal %s: %v", id, err)
	}
}

func (w *world) restart(document string) {
	w.t.Helper()
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
	w.start(document)
}

// untaken returns the ids of the signals that no run has got.
func (w *world) untaken() (ids []string) {
	w.t.Helper()
	all, err := w.store.Untaken(w.t.Context(), time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

func submission(waits ...value.Value) node.Submission {
	return node.Submission{Payload: value.List(waits...)}
}

// TestKeptSignals sends signals before the waits, with and without a restart between: each goes to one wait.
func TestKeptSignals(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t)
		w.start(waits)
		for _, id := range []string{"1", "2", "1", "3"} {
			w.signalled("e", "k", id)
		}
		w.signalled("e", "other", "4")
		if restart {
			w.restart(waits)
			w.signalled("e", "k", "2")
		}
		if got := answer(w.must(submission(wait("e", "k", 0), wait("e", "k", 0)))); got != `["1","2"]` {
			t.Errorf("got %s", got)
		}
		if got := answer(w.must(submission(wait("e", "k", 0), wait("e", "k", time.Millisecond)))); got != `["3","late"]` {
			t.Errorf("got %s", got)
		}
		if got := w.untaken(); fmt.Sprint(got) != "[4]" {
			t.Errorf("left: %s", got)
		}
	}
}

// TestSignalForAll sends a signal to runs that wait in memory, that are unloaded, and that are children: all get it once.
func TestSignalForAll(t *testing.T) {
	for _, rest := range []time.Duration{time.Hour, time.Microsecond} {
		durable.SetRestTime(t, rest)
		w := newWorld(t)
		w.start(waitsOfChildren)
		twice := value.List(wait("e", "k", 0), wait("e", "k", time.Millisecond))
		var receipts []*node.Receipt
		for range 20 {
			r := w.must(submission(twice, twice, value.List(wait("e", "other", time.Millisecond))))
			receipts = append(receipts, r)
			w.begun(r, "k", 2)
			if rest < time.Second {
				w.stored(r.Run, journal.Waiting)
			}
		}
		w.signalled("e", "k", "1")
		for _, r := range receipts {
			if got := answer(r); got != `[["1","late"],["1","late"],["late"]]` {
				t.Errorf("got %s", got)
			}
		}
		if got := w.untaken(); len(got) > 0 {
			t.Errorf("left: %s", got)
		}
	}
}

// begun waits until a run has begun waits for signals with a key, or has ended.
func (w *world) begun(r *node.Receipt, key string, n int) {
	w.t.Helper()
	for {
		rows, err := w.store.Waits(w.t.Context(), id(r))
		if err != nil {
			w.t.Fatal(err)
		}
		rows = slices.DeleteFunc(rows, func(one journal.Wait) bool { return one.Key != key })
		if len(rows) >= n {
			return
		}
		select {
		case <-r.Done:
			return
		case <-w.t.Context().Done():
			w.t.Fatal("the test is over")
		case <-time.After(100 * time.Microsecond):
		}
	}
}

func id(r *node.Receipt) journal.ID { return journal.ID(uuid.MustParse(r.Run)) }

// TestToken approves one of two runs that wait for the same event: the other does not get it, whether the first
// takes it or its time is over.
func TestToken(t *testing.T) {
	durable.SetRestTime(t, time.Microsecond)
	w := newWorld(t)
	w.tokens = make(chan string, 4)
	w.start(waits)
	other := w.must(submission(wait("e", "", 0)))
	<-w.tokens
	w.begun(other, "", 1)
	for _, timeout := range []time.Duration{0, 2 * time.Millisecond} {
		r := w.must(submission(wait("e", "", timeout)))
		token := <-w.tokens
		w.begun(r, "", 1)
		err := w.send(node.Signal{Token: token, Payload: value.String("yes"), Keep: time.Hour})
		got := answer(r)
		if err == nil && got != `["yes"]` && timeout == 0 || err != nil && (statusOf(err) != 404 || got != `["late"]`) {
			t.Errorf("got %s, %v", got, err)
		}
		if err := w.send(node.Signal{Token: token}); statusOf(err) != 404 && err != nil {
			t.Errorf("again: %v", err)
		}
	}
	if err := w.send(node.Signal{Token: "unknown"}); statusOf(err) != 404 {
		t.Errorf("unknown: %v", err)
	}
	if err := w.signal("e", "", "token/00"); statusOf(err) != 400 {
		t.Errorf("an id like that of a token: %v", err)
	}
	w.restart(waits)
	select {
	case <-other.Done:
		if got := answer(other); strings.Contains(got, "yes") {
			t.Errorf("the other run got %s", got)
		}
	default:
	}
	w.signalled("e", "", "for all")
	if resp, err := durable.Answer(w.stored(other.Run, journal.OK).Answer); err != nil || show(resp) != `["for all"]` {
		t.Errorf("the other got %s, %v", show(resp), err)
	}
}

// TestSignalRacesTime sends a signal when the time of a wait is over, and while its run is unloaded: either wins, and
// what no wait has got is there for the next.
func TestSignalRacesTime(t *testing.T) {
	durable.SetRestTime(t, 50*time.Microsecond)
	w := newWorld(t)
	w.start(waits)
	rounds := 150
	if os.Getenv("DURABLE_FAULTS") == "full" {
		rounds = 625 // 10,000 in all
	}
	var workers sync.WaitGroup
	for worker := range 16 {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for i := range rounds {
				key := fmt.Sprintf("%d-%d", worker, i)
				r, err := w.submit(submission(wait("e", key, time.Duration(1+rng.IntN(3))*time.Millisecond)))
				if err != nil {
					t.Error(err)
					return
				}
				<-time.After(time.Duration(rng.IntN(3000)) * time.Microsecond) // at some moment of its life
				if err := w.signal("e", key, key); err != nil {
					t.Error(err)
				}
				switch got := answer(r); got {
				case fmt.Sprintf("[%q]", key):
				case `["late"]`:
					next, err := w.submit(submission(wait("e", key, 0)))
					if err != nil {
						t.Error(err)
						return
					}
					if got := answer(next); got != fmt.Sprintf("[%q]", key) {
						t.Errorf("%s: the next got %s", key, got)
					}
				default:
					t.Errorf("%s: got %s", key, got)
				}
			}
		})
	}
	workers.Wait()
	if got := w.untaken(); len(got) > 0 {
		t.Errorf("left: %s", got)
	}
}

// TestAttachedOverUnload attaches clients by key to a run that is unloaded, resumed and unloaded again: all of those
// that stay get the answer, or an error when the program stops.
func TestAttachedOverUnload(t *testing.T) {
	durable.SetRestTime(t, time.Microsecond)
	w := newWorld(t)
	w.start(waits)
	sub := submission(wait("e", "k", 0), wait("e", "k", 0))
	sub.Key = []byte("key")
	first := w.must(sub)
	w.stored(first.Run, journal.Waiting)
	second := w.must(sub)
	leaves := w.must(sub)
	leaves.Leave()
	w.signalled("e", "k", "1")
	third := w.must(sub)
	for len(w.untaken()) > 0 { // or it could come after the next
		<-time.After(100 * time.Microsecond)
	}
	w.stored(first.Run, journal.Waiting)
	w.stop()
	for i, r := range []*node.Receipt{first, second, third} {
		if got := answer(r); r.Run != first.Run || r.Attached != (i > 0) || !strings.HasPrefix(got, "error 503") {
			t.Errorf("%d: run %s, attached %v, got %s", i, r.Run, r.Attached, got)
		}
	}
	w.store = &crashStore{Store: w.store.Reopen()}
	w.start(waits)
	after := w.must(sub)
	w.signalled("e", "k", "2")
	if got := answer(after); after.Run != first.Run || got != `["1","2"]` {
		t.Errorf("after the restart: %s", got)
	}
	for { // nothing is left, once all is committed
		signals, runs := w.signals.(*durable.Keeper).Sizes()
		if signals+runs == 0 {
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%d entries about signals are left, and %d about runs", signals, runs)
		case <-time.After(100 * time.Microsecond):
		}
	}
}

// TestRandomSignals sends signals, each to a key of its own wait, while the program stops and crashes at random: each
// run ends once, with the signals for it in the order of its waits.
func TestRandomSignals(t *testing.T) {
	durable.SetRestTime(t, 100*time.Microsecond)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	t.Logf("seed %d", seed)
	w := newWorld(t)
	w.start(waits)
	const runs, each = 40, 3
	ids, sent := make([]string, runs), make(map[string]bool)
	for i := range ids {
		all := make([]value.Value, each)
		for j := range all {
			all[j] = wait("e", fmt.Sprintf("%d/%d", i, j), 0)
		}
		r := w.must(submission(all...))
		w.begun(r, fmt.Sprintf("%d/0", i), 1)
		ids[i] = r.Run
	}
	crashes := 0
	for len(sent) < runs*each {
		key := fmt.Sprintf("%d/%d", rng.IntN(runs), rng.IntN(each))
		w.signalled("e", key, key) // some for the second time
		sent[key] = true
		switch rng.IntN(25) {
		case 0:
			w.restart(waits)
		case 1:
			if crashes++; crashes < 6 { // after which a run that has no record between is dead
				w.crash(func() {})
				w.start(waits)
			}
		}
	}
	for i, id := range ids {
		resp, err := durable.Answer(w.stored(id, journal.OK).Answer)
		if want := fmt.Sprintf(`["%d/0","%d/1","%d/2"]`, i, i, i); err != nil || show(resp) != want {
			t.Errorf("run %d: got %s, %v, want %s", i, show(resp), err, want)
		}
	}
	if got := w.untaken(); len(got) > 0 {
		t.Errorf("left: %s", got)
	}
}

// TestSuspectsThatWait crashes the program while runs wait in memory: all go on after it, although they have no record
// since.
func TestSuspectsThatWait(t *testing.T) {
	durable.SetRestTime(t, time.Hour)
	w := newWorld(t)
	w.start(waits)
	var runs []string
	for range 3 {
		r := w.must(submission(wait("e", "k", 0)))
		w.begun(r, "k", 1)
		runs = append(runs, r.Run)
	}
	for range 3 {
		for _, run := range runs {
			w.stored(run, journal.Running)
		}
		w.crash(func() {})
		w.start(waits)
	}
	w.signalled("e", "k", "1")
	for _, run := range runs {
		w.stored(run, journal.OK)
	}
}
