//go:build unix

package durable

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

// stations takes an order past all points: an effect, a wait, an effect, an item whose answer is that of the order.
const stations = `
- kind: listener
  name: orders
  host: 127.0.0.1
  port: %[1]d
  durability: {level: checkpoint, key: 'header["Idempotency-Key"][0]'}
  ports: {out: [{name: order}]}
- {kind: snippet, name: order, language: cel, code: '{"body": {"of": string(int(self.body.order))}}', ports: {out: [{name: first}]}}
- {kind: http, name: first, method: POST, url: "%[2]s/first", timeout: 5s, ports: {out: [{name: approval}]}}
- {kind: wait, name: approval, event: approved, key: self.body.done, timeout: 1h, ports: {out: [{name: of approval}]}}
- {kind: snippet, name: of approval, language: cel, code: '{"body": {"of": self.signal}}', ports: {out: [{name: second}]}}
- {kind: http, name: second, method: POST, url: "%[2]s/second", timeout: 5s, ports: {out: [{name: put}]}}
- {kind: enqueue, name: put, queue: work, payload: '{"of": self.body.done}', wait: true, ports: {out: [{name: answer}]}}
- {kind: snippet, name: answer, language: cel, code: '{"body": self}'}

- {kind: queue, name: work, ports: {out: [{name: item}]}}
- {kind: snippet, name: item, language: cel, code: '{"body": self}', ports: {out: [{name: third}]}}
- {kind: http, name: third, method: POST, url: "%[2]s/third", timeout: 5s, ports: {out: [{name: done}]}}
- {kind: snippet, name: done, language: cel, code: self.body.done}

- {kind: listener, name: signals, host: 127.0.0.1, port: %[3]d, ports: {out: [{name: approve}]}}
- {kind: signal, name: approve, event: approved, key: 'self.query.of[0]', payload: 'self.query.of[0]', event_id: 'self.query.of[0]', ports: {out: [{name: thanks}]}}
- {kind: snippet, name: thanks, language: cel, code: '{"status": 204}'}
`

// ticking calls a service with the time of each tick.
const ticking = `
- {kind: schedule, name: ticks, interval: 300ms, catch_up: all, durability: checkpoint, ports: {out: [{name: tick}]}}
- {kind: snippet, name: tick, language: cel, code: '{"body": {"of": "tick " + string(self.time)}}', ports: {out: [{name: tell}]}}
- {kind: http, name: tell, method: POST, url: "%[2]s/tick", timeout: 5s}
`

// A station is where a server is killed, and what may follow.
type station struct {
	kills  string // values of UNIFLOW_KILL, one for each server that is killed
	most   int    // calls that may be repeated
	least  int    // calls that must be
	accept bool   // the level is accept
	late   bool   // no signal is sent before the last kill
	ticks  bool   // there is a schedule, and no order before the kill
	old    bool   // there are runs that are not kept

	// Of one that is killed by the kernel: see TestKilledWriting.
	file, calls string // the end of the name of the file, and what is called for it
	when        int    // for which call
	stops       bool   // once there are orders, it is stopped as well
}

// TestPoints kills the server at each point of the code at which a crash leaves something else. Orders come one after
// the other, so a call is repeated only if the server was killed between its begin and the commit of its record.
func TestPoints(t *testing.T) {
	all := []station{
		{kills: "K1:1"},
		{kills: "K2:1", most: 1}, // the run goes on while the client is told
		{kills: "K3:1", most: 1},
		{kills: "K4:1"},
		{kills: "K5:1", least: 1, most: 1},
		{kills: "K6:1", most: 1},
		{kills: "K7:1"},
		{kills: "K8:1"},
		{kills: "K9:1", late: true},
		{kills: "K10:1"},
		{kills: "K11:1"}, // an item
		{kills: "K8:1 K11:1", late: true},
		{kills: "K8:1 K12:1"},
		{kills: "K19:1 K12:3", most: 1},
		{kills: "K8:1 K13:1"},
		{kills: "K14:1", most: 1}, // the last record and the end share a commit
		{kills: "K15:1"},
		{kills: "K17:1"}, // in the first transaction of all, which makes the tables
		{kills: "K17:4", most: 1},
		{kills: "K18:1", most: 1, old: true},
		{kills: "K19:1"}, // an item
		{kills: "K19:1", ticks: true},
		{kills: "K2:1", accept: true, most: 3},
		{kills: "K5:2", accept: true, most: 3},
		{kills: "K15:1", accept: true, most: 3},
	}
	if full() {
		for n := range 12 {
			for _, point := range strings.Fields("K1 K2 K3 K4 K5 K6 K7 K8 K10 K11 K14 K15 K17 K19") {
				all = append(all, station{kills: fmt.Sprintf("%s:%d", point, n+2), most: 1})
			}
			for _, point := range strings.Fields("K1 K2 K3 K4 K5 K6 K14 K15 K17") {
				all = append(all, station{kills: fmt.Sprintf("%s:%d", point, n+1), most: 3, accept: true})
			}
			for _, point := range strings.Fields("K11:1 K12:1 K12:3 K13:1 K14:1 K15:1") { // before it is a kill of the same order
				all = append(all, station{kills: fmt.Sprintf("K19:%d %s", n+1, point), most: 2})
			}
		}
	}
	file := binary(t, "faults")
	for _, s := range all {
		name := s.kills
		for text, has := range map[string]bool{" accept": s.accept, " ticks": s.ticks} {
			if has {
				name += text
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.test(t, file)
		})
	}
}

func (s station) test(t *testing.T, file string) {
	o := newOracle(t)
	o.again = s.accept
	defer o.Close()
	port, signals, dir := freeport.Port(t), freeport.Port(t), t.TempDir()
	text := stations
	switch {
	case s.accept:
		text = strings.Replace(three, "level: checkpoint", "level: accept", 1)
	case s.ticks:
		text += ticking
	}
	p := serving(t, file, dir, strings.TrimSuffix(fmt.Sprintf(text, port, o.URL, signals), fmt.Sprintf("%%!(EXTRA int=%d)", signals)))
	if s.old {
		addOld(t, filepath.Join(dir, "runs.db"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	over := make(chan struct{}) // the last kill
	var killer sync.WaitGroup
	killer.Go(func() {
		defer close(over)
		for _, kill := range strings.Fields(s.kills) {
			if p.env = []string{"UNIFLOW_KILL=" + kill}; s.calls != "" {
				p.env, p.under = nil, inject(filepath.Join(dir, "runs.db"+s.file), s.calls, fmt.Sprintf("signal=SIGKILL:when=%d", s.when))
			}
			p.start()
			if err := p.killed(20 * time.Second); err != nil {
				t.Errorf("%s: %v", kill, err)
				cancel()
			}
			o.quiet()
		}
		p.env, p.under = nil, nil
		p.start()
	})
	if s.ticks {
		<-over
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	var answers []string
	for last := false; !t.Failed() && (len(answers) < 3 || !last); {
		select {
		case <-over:
			last = true
		default:
		}
		i := len(answers)
		if err := begin(ctx, url, i); err != nil {
			t.Errorf("order %d: %v", i, err)
			break
		}
		var approved sync.WaitGroup
		if !s.accept {
			approved.Go(func() {
				if s.late {
					<-over
				}
				if err := o.approve(ctx, fmt.Sprintf("http://127.0.0.1:%d/", signals), i); err != nil {
					t.Errorf("order %d: its signal: %v", i, err)
				}
			})
		}
		answer, err := order(ctx, url, i)
		if err != nil {
			t.Errorf("order %d: %v", i, err)
		}
		approved.Wait()
		if answers = append(answers, answer); s.stops && len(answers) == 3 {
			p.mu.Lock()
			err := p.cmd.Process.Signal(syscall.SIGTERM)
			p.mu.Unlock()
			if err != nil {
				t.Error(err)
			}
		}
	}
	killer.Wait()
	for i, answer := range answers {
		if again, err := order(ctx, url, i); err != nil || again != answer {
			t.Errorf("order %d again: %s, %v; it was %s", i, again, err, answer)
		}
		if of, err := o.chain(answer); err != nil || of != fmt.Sprint(i) {
			t.Errorf("order %d: its answer %s is of order %q, %v", i, answer, of, err)
		}
	}
	p.stop()
	repeated, ticks := 0, 0
	for _, e := range o.effects {
		repeated += e.calls - 1
		if e.path == "/tick" {
			ticks++
		}
	}
	if repeated < s.least || repeated > s.most {
		t.Errorf("%d calls were repeated, want %d to %d", repeated, s.least, s.most)
	}
	if s.ticks && ticks == 0 {
		t.Error("there was no tick")
	}
	runs, items := len(answers)+ticks, len(answers)
	if s.accept {
		items = 0
	}
	o.recorded(filepath.Join(dir, "runs.db"), runs, items)
	if t.Failed() {
		t.Log(p.log.String())
	}
}

// inject returns what runs a server and lets its calls of the kernel fail for a file of the journal, as an expression
// of strace says. strace leaves the server the child of the test.
func inject(file, calls, how string) []string {
	return []string{"strace", "-D", "-f", "-o", "/dev/null", "-P", file, "-e", "trace=" + calls, "-e", "inject=" + calls + ":" + how}
}

// killed waits until the server has killed itself. It fails, and kills it, if it does not.
func (p *program) killed(within time.Duration) error {
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	late := time.AfterFunc(within, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // it may have ended just now
	state, err := cmd.Process.Wait()
	late.Stop()
	if err != nil {
		return err
	}
	if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the point was not reached: %v", state)
	}
	return nil
}

// approve sends the signal that an order waits for, once the first effect of that is known.
func (o *oracle) approve(ctx context.Context, url string, i int) error {
	for {
		o.mu.Lock()
		first := o.bodies[fmt.Sprintf(`/first{"of":"%d"}`, i)]
		o.mu.Unlock()
		if first != nil {
			return send(ctx, url+"?of="+first.answer, "")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// recorded looks into the journal: all runs have ended well, items among them, and each effect is recorded once.
func (o *oracle) recorded(file string, runs, items int) {
	o.t.Helper()
	s, err := sqlite.Open(file, sqlite.Options{})
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			o.t.Error(err)
		}
	}()
	all, err := s.List(o.t.Context(), journal.Filter{Limit: 1 << 30})
	if err != nil {
		o.t.Fatal(err)
	}
	found := make(map[string]int) // answers in records
	for _, r := range all {
		if r.State != journal.OK {
			o.t.Errorf("run %x is %s: %s", r.ID, r.State, r.Error)
		}
		if r.Trigger == oldTrigger {
			continue
		}
		runs--
		if r.Queue != "" {
			runs++
			items--
		}
		records, err := s.Records(o.t.Context(), r.ID)
		if err != nil {
			o.t.Fatal(err)
		}
		for _, rec := range records {
			payload, err := durable.Payload(rec.Payload)
			if err != nil {
				o.t.Fatal(err)
			}
			body, _ := payload.Get("body")
			if done, ok := body.Get("done"); ok && rec.Type == journal.Result {
				answer, _ := done.AsString()
				found[answer]++
			}
		}
	}
	if runs != 0 || items != 0 {
		o.t.Errorf("%d runs and %d items are missing", runs, items)
	}
	for answer, n := range found {
		if o.answers[answer] == nil || n != 1 {
			o.t.Errorf("%q is recorded %d times", answer, n)
		}
	}
	if !o.again && len(found) != len(o.effects) {
		o.t.Errorf("%d of %d effects are recorded", len(found), len(o.effects))
	}
	if found, err := s.Check(o.t.Context()); err != nil || len(found) > 0 {
		o.t.Errorf("Check found %q, %v", found, err)
	}
}

const oldTrigger = "old"

// addOld adds runs to a journal that have ended two days ago.
func addOld(t *testing.T, file string) {
	t.Helper()
	s, err := sqlite.Open(file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-48 * time.Hour)
	var b journal.Batch
	for range 700 {
		id := journal.ID(uuid.Must(uuid.NewV7()))
		b.Starts = append(b.Starts, &journal.Run{ID: id, Namespace: "default", Trigger: oldTrigger, State: journal.Running, Created: at})
		b.Records = append(b.Records, journal.Record{Run: id, N: 1, Node: "n", Type: journal.Result, At: at})
		b.Ends = append(b.Ends, journal.End{Run: id, State: journal.OK, At: at})
	}
	if err := s.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNoPoints shows that the program that users have cannot be killed at points.
func TestNoPoints(t *testing.T) {
	variable := []byte("UNIFLOW_KILL")
	for tags, want := range map[string]bool{"": false, "faults": true} {
		data, err := os.ReadFile(binary(t, tags))
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(data, variable); has != want {
			t.Errorf("with tags %q the program knows %s: %t", tags, variable, has)
		}
	}
}
