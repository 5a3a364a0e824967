package dialogue_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// noting asks, and notes in the session what was said before and after.
const noting = `
- {kind: door, name: door, ports: {out: [{name: talk}], error: [{name: why}]}}
- {kind: session, name: talk, key: self.from, %s, ports: {out: [{name: first}]}}
- {kind: remember, name: first, append: {said: "${self.text}"}, ports: {out: [{name: ask}]}}
- {kind: ask, name: ask, text: "${self.text}?", timeout: 96h, ports: {out: [{name: second}]}}
- {kind: remember, name: second, append: {said: "${self.answer}"}, ports: {out: [{name: look}]}}
- {kind: recall, name: look, ports: {out: [{name: all}]}}
- {kind: snippet, name: all, language: cel, code: 'self.session.said'}
- {kind: snippet, name: why, language: cel, code: 'self.message'}
`

// begins has a person say something that begins a run, whatever waits.
func (w *town) begins(id, text string) {
	w.t.Helper()
	payload := value.Map(value.Field{Name: "from", Value: value.String("ann")}, value.Field{Name: "text", Value: value.String(text)})
	if _, err := w.door.Submit(w.t.Context(), node.Submission{Level: node.LevelCheckpoint, Payload: payload, Key: []byte(id), KeyTTL: 365 * 24 * time.Hour}); err != nil {
		w.t.Fatal(err)
	}
}

// TestSessionDays has two runs of a session that wait over restarts. While one waits the other has the session,
// and what that has changed is there when the first goes on.
func TestSessionDays(t *testing.T) {
	for name, store := range map[string]string{
		"memory": "ttl: 0",
		"sqlite": fmt.Sprintf("ttl: 0, store: {driver: sqlite, source: '%s'}", filepath.Join(t.TempDir(), "db")),
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, restarts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &town{t: t, store: memory.New()}
					document := fmt.Sprintf(noting, strings.Replace(store, "db'", fmt.Sprint(restarts)+"'", 1))
					w.start(document)
					pass := func(d time.Duration) {
						<-time.After(d)
						synctest.Wait()
						if restarts {
							w.stop()
							w.start(document)
							<-time.After(time.Second)
						}
					}
					w.begins("1", "tea")
					pass(20 * time.Hour) // it has left memory
					w.begins("2", "cake")
					pass(20 * time.Hour)
					w.says("ann", "3", "large")
					pass(time.Hour)
					w.says("ann", "4", "small")
					pass(time.Hour)
					want := []string{"asked tea?", "asked cake?", `answered ["tea","cake","large"]`, `answered ["tea","cake","large","small"]`}
					if restarts && name == "memory" { // each run has what it has said itself
						want[2], want[3] = `answered ["tea","large"]`, `answered ["cake","small"]`
					}
					if got := w.all(); !slices.Equal(got, want) {
						t.Errorf("got  %q\nwant %q", got, want)
					}
					w.stop()
				})
			})
		}
	}
}

// TestSessionTwice has runs that wait twice, with a restart after each step: what a run has found in its session
// when it went on is found again.
func TestSessionTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &town{t: t, store: memory.New()}
		document := strings.Replace(fmt.Sprintf(noting, fmt.Sprintf("store: {driver: sqlite, source: '%s'}, ttl: 0", filepath.Join(t.TempDir(), "db"))),
			`append: {said: "${self.answer}"}, ports: {out: [{name: look}]}}`, `append: {said: "${self.answer}"}, ports: {out: [{name: seen}]}}
- {kind: recall, name: seen, ports: {out: [{name: more}]}}
- {kind: ask, name: more, text: 'more, after ${self.session.said.join("+")}?', timeout: 96h, ports: {out: [{name: third}]}}
- {kind: remember, name: third, append: {said: "${self.answer}"}, ports: {out: [{name: look}]}}`, 1)
		w.start(document)
		for i, step := range []func(){
			func() { w.begins("1", "tea") },
			func() { w.begins("2", "cake") },
			func() { w.says("ann", "3", "large") }, // to the run that is older
			func() { w.says("ann", "4", "yes") },
			func() { w.says("ann", "5", "small") },
			func() { w.says("ann", "6", "no") },
		} {
			step()
			<-time.After(2 * time.Second)
			synctest.Wait()
			if i%2 == 0 {
				w.stop()
			} else {
				w.crash()
			}
			w.start(document)
			<-time.After(time.Second)
			synctest.Wait()
		}
		want := []string{
			"asked tea?", "asked cake?",
			`asked more, after tea+cake+large?`, `answered ["tea","cake","large","yes"]`,
			`asked more, after tea+cake+large+yes+small?`, `answered ["tea","cake","large","yes","small","no"]`,
		}
		if got := w.all(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		w.stop()
	})
}

// TestSessionEnded ends a session while a run waits that has changed it: what the run had does not come back.
func TestSessionEnded(t *testing.T) {
	for name, store := range map[string]string{
		"memory": "ttl: 0",
		"sqlite": fmt.Sprintf("ttl: 0, store: {driver: sqlite, source: '%s'}", filepath.Join(t.TempDir(), "db")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &town{t: t, store: memory.New()}
				w.start(strings.Replace(fmt.Sprintf(noting, store), "ports: {out: [{name: first}]}", "ports: {out: [{name: leaves}]}", 1) + `
- {kind: if, name: leaves, language: cel, when: 'self.text == "bye"', ports: {'out[0]': [{name: clear}], 'out[1]': [{name: first}]}}
- {kind: remember, name: clear, clear: true, ports: {out: [{name: gone}]}}
- {kind: snippet, name: gone, language: text, code: gone}
`)
				for _, step := range []func(){
					func() { w.begins("1", "tea") }, func() { w.begins("2", "bye") }, func() { w.says("ann", "3", "large") },
					func() { w.begins("4", "cake") }, func() { w.says("ann", "5", "small") },
				} {
					step()
					<-time.After(2 * time.Second)
					synctest.Wait()
				}
				want := []string{"asked tea?", "answered gone", `answered ["large"]`, "asked cake?", `answered ["large","cake","small"]`}
				if got := w.all(); !slices.Equal(got, want) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
				w.stop()
			})
		})
	}
}

// crash ends the engine, whose journal writes nothing more.
func (w *town) crash() {
	w.t.Helper()
	w.store = w.store.Reopen()
	if err := w.engine.Shutdown(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// A crashing store of a journal commits no records any more, or no ends, once the test says so.
type crashing struct {
	*memory.Store
	records, ends atomic.Bool
}

func (s *crashing) Commit(ctx context.Context, b *journal.Batch) error {
	if s.records.Load() || len(b.Ends) > 0 && s.ends.Load() {
		return errors.New("the program has crashed")
	}
	return s.Store.Commit(ctx, b)
}

// Close leaves the journal to the next program.
func (s *crashing) Close() error { return nil }

// TestSessionCrash has runs that crash while they have a session, or when it is saved and they have not ended.
// Each visit counts once.
func TestSessionCrash(t *testing.T) {
	for name, fields := range stores(t) {
		for _, at := range []string{"records", "ends"} {
			for _, level := range []string{"checkpoint", "accept"} {
				if level == "accept" && at == "records" {
					continue // it records nothing before its end
				}
				t.Run(name+" "+at+" "+level, func(t *testing.T) {
					document := fmt.Sprintf(`
- kind: listener
  name: web
  host: 127.0.0.1
  port: 0
  durability: {level: %s, key: 'header[?"Idempotency-Key"][?0].orValue(null)'}
  ports: {out: [{name: talk}]}
- {kind: session, name: talk, key: '"%s %s" + self.body.user', init: {visits: 0}, %s, ports: {out: [{name: load}]}}
- {kind: recall, name: load, ports: {out: [{name: count}]}}
- {kind: remember, name: count, set: {visits: "${session.visits + 1}"}, append: {all: "${session.visits}"}, ports: {out: [{name: after}]}}
- {kind: recall, name: after, ports: {out: [{name: say}]}}
- {kind: snippet, name: say, language: cel, code: '{"body": string(self.session.visits) + " of " + string(size(self.session.all))}', ports: {out: [{name: charge}]}}
`, level, at, level, fields)
					store := &crashing{Store: memory.New()}
					begin := func(charge func(node.Process, node.Packet) node.Result) *flowtest.Flow {
						f := newFlow(t)
						f.Options.Clock, f.Options.Journal = node.SystemClock{}, store
						f.Probe("charge").Do(charge)
						f.Serve(document)
						return f
					}
					visit := func(f *flowtest.Flow, key string) string {
						r := f.Request("POST", "/", `{"user": "ann"}`, "Content-Type", "application/json", "Idempotency-Key", key)
						return fmt.Sprint(r.Status, " ", r.Body)
					}
					f := begin(flowtest.Echo)
					if got := visit(f, "a"); got != "200 1 of 1" {
						t.Fatalf("the first visit: got %s", got)
					}
					f.Probe("charge").Do(func(p node.Process, pkt node.Packet) node.Result {
						store.records.Store(at == "records")
						store.ends.Store(at == "ends")
						return flowtest.Echo(p, pkt)
					})
					if got := visit(f, "b"); !strings.HasPrefix(got, "503") {
						t.Fatalf("a crash: got %s", got)
					}
					f.Close()
					store.records.Store(false)
					store.ends.Store(false)
					if name != "memory" { // it has the session until it goes on
						other := newFlow(t)
						other.Options.Clock = node.SystemClock{}
						other.Load(counter("patience: 300ms, " + fields))
						if at == "records" {
							resp := other.Send("s", user(at+" "+level+"ann"))
							if got := flowtest.Show(resp); !strings.Contains(got, "has not gone on after a restart") {
								t.Errorf("another engine: got %s", got)
							}
						}
						other.Close()
					}
					f = begin(flowtest.Echo)
					want := "200 2 of 2"
					switch {
					case level == "checkpoint":
					case name == "memory":
						want = "200 1 of 1" // the session is lost, and of the run the journal has only how it began
					case at == "ends":
						want = "200 3 of 3" // it begins again, and sees what it has saved
					}
					if got := visit(f, "b"); got != want {
						t.Errorf("the run: got %s, want %s", got, want)
					}
					want = "200 3 of 3"
					if level == "accept" && name == "memory" {
						want = "200 2 of 2"
					}
					if got := visit(f, "c"); got != want {
						t.Errorf("the next visit: got %s, want %s", got, want)
					}
				})
			}
		}
	}
}
