package dialogue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A town has a door at which people say something, and an engine that is started again and again. What the
// door hears back is in order.
type town struct {
	t      *testing.T
	store  *memory.Store
	engine *uniflow.Engine
	door   node.DurableStarter

	mu    sync.Mutex
	heard []string
}

// A door is a trigger whose processes belong to the conversation in their payload.
type door struct{ *town }

func (d door) Receive(node.Process, node.Packet) node.Result { return node.None() }

func (d door) Serve(src node.Starter) error {
	d.town.door = src.(node.DurableStarter)
	return nil
}

// Part implements [node.Parts].
func (d door) Part(_ context.Context, v value.Value) error {
	d.hear("asked", v)
	return nil
}

func (d door) hear(what string, v value.Value) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, _ := v.Get("text")
	if text.IsNull() {
		text = v
	}
	d.heard = append(d.heard, fmt.Sprint(what, " ", text))
}

// Visit implements [node.Host].
func (d door) Visit(payload value.Value) *node.Visit {
	from, _ := payload.Get("from")
	return &node.Visit{
		Context: func(ctx context.Context) context.Context {
			return node.WithParts(node.WithConversation(ctx, from.String()), d)
		},
		Answer: func(resp node.Response, done func(error)) {
			d.hear("answered", resp.Payload)
			done(nil)
		},
	}
}

func (w *town) start(document string) {
	w.t.Helper()
	def := &node.Def{
		Kind: "door", Summary: "Takes what a test says.", Out: []node.Port{{Name: "out"}}, Role: node.Begins,
		Traits: node.Fixed(node.Traits{Gives: []string{node.GivesParts, node.GivesConversation}}),
		New:    func(*node.Init) (node.Node, error) { return door{w}, nil },
	}
	e, err := uniflow.New(uniflow.Options{Journal: w.store, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Kinds: append(std.Defs(""), def)})
	if err != nil {
		w.t.Fatal(err)
	}
	list, err := e.Apply(w.t.Context(), uniflow.Source{Documents: []spec.Document{{File: "town.yaml", Data: []byte(document)}}})
	if err != nil || list.HasErrors() {
		w.t.Fatal(list, err)
	}
	w.engine = e
}

func (w *town) stop() {
	w.t.Helper()
	if err := w.engine.Shutdown(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.store = w.store.Reopen()
}

// says has a person say a text; id is that of the message.
func (w *town) says(from, id, text string) (given bool) {
	w.t.Helper()
	r, err := w.submit(from, id, text)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Leave()
	return r.Given
}

func (w *town) submit(from, id, text string) (*node.Receipt, error) {
	payload := value.Map(value.Field{Name: "from", Value: value.String(from)}, value.Field{Name: "text", Value: value.String(text)})
	return w.door.Submit(w.t.Context(), node.Submission{
		Level: node.LevelCheckpoint, Payload: payload, Key: []byte(id), KeyTTL: 365 * 24 * time.Hour,
		Message: &node.Signal{Namespace: "default", Event: node.EventReply, Key: value.String(from).String(), ID: "door/" + id, Payload: payload, Keep: 24 * time.Hour},
	})
}

func (w *town) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.heard)
}

const forms = `
- {kind: door, name: door, ports: {out: [{name: form}], error: [{name: why}]}}
- kind: form
  name: form
  timeout: 96h
  fields:
    - {name: size, text: "Which size, ${self.text}?", choices: [small, large]}
    - {name: count, text: "How many, ${answers.size}?", schema: {type: integer}}
  ports: {out: [{name: done}], timeout: [{name: late}]}
- {kind: snippet, name: done, language: cel, code: 'string(self.answers.count) + " " + self.answers.size + " " + self.input.text'}
- {kind: snippet, name: late, language: text, code: too late}
- {kind: snippet, name: why, language: cel, code: 'self.message'}
`

// TestDays asks twice, and waits for three days over five restarts and other builds of the workflow. Each
// question is asked once.
func TestDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &town{t: t, store: memory.New()}
		w.start(forms)
		begun := time.Now()
		w.says(`ann`, "1", "tea")
		for i := range 5 {
			<-time.After(14*time.Hour + 24*time.Minute)
			synctest.Wait()
			w.stop()
			w.start(forms + fmt.Sprintf("- {kind: nop, name: build %d}\n", i%2))
			if i == 2 {
				if !w.says("ann", "2", "medium") || !w.says("ann", "2", "medium") { // it fits no choice
					t.Error("nothing waited for a message")
				}
			}
		}
		if d := time.Since(begun); d < 72*time.Hour {
			t.Fatalf("only %v have passed", d)
		}
		w.says("ann", "3", "large")
		<-time.After(5 * time.Second)
		w.stop()
		w.start(forms)
		w.says("ann", "3", "large") // it comes again
		w.says("ann", "4", "2")
		synctest.Wait()
		w.says("ann", "1", "tea") // likewise
		synctest.Wait()
		want := []string{
			"asked Which size, tea?", "asked Please choose one of: small, large.\nWhich size, tea?",
			"asked How many, large?", "answered 2 large tea",
		}
		if got := w.all(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		w.stop()
	})
}

// TestLateOverRestart ends a wait by its time, which has passed while the program did not run.
func TestLateOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &town{t: t, store: memory.New()}
		w.start(forms)
		w.says("ann", "1", "tea")
		<-time.After(5 * time.Second)
		w.stop()
		<-time.After(97 * time.Hour)
		w.start(forms)
		<-time.After(5 * time.Second)
		if w.says("ann", "2", "large") {
			t.Error("the message came after the time, and went to the question")
		}
		synctest.Wait()
		want := []string{"asked Which size, tea?", "answered too late", "asked Which size, large?"}
		if got := w.all(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		w.stop()
	})
}

// TestTwoAsk has two questions of one conversation: that of the older run gets the first message.
func TestTwoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &town{t: t, store: memory.New()}
		w.start(strings.Replace(once, "5ms", "1h", 1))
		submit := func(id, text string) { // as if each had come before the question of the other
			payload := value.Map(value.Field{Name: "from", Value: value.String("ann")}, value.Field{Name: "text", Value: value.String(text)})
			if _, err := w.door.Submit(t.Context(), node.Submission{Level: node.LevelCheckpoint, Payload: payload, Key: []byte(id), KeyTTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		submit("1", "tea")
		<-time.After(time.Millisecond)
		submit("2", "cake")
		w.says("ann", "3", "large")
		synctest.Wait()
		w.says("ann", "4", "small")
		synctest.Wait()
		want := []string{"asked tea?", "asked cake?", "answered tea large", "answered cake small"}
		if got := w.all(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		w.stop()
	})
}

const once = `
- {kind: door, name: door, ports: {out: [{name: ask}]}}
- {kind: ask, name: ask, text: "${self.text}?", timeout: 5ms, ports: {out: [{name: done}], timeout: [{name: late}]}}
- {kind: snippet, name: done, language: cel, code: 'self.input.text + " " + self.answer'}
- {kind: snippet, name: late, language: text, code: late}
`

// TestReplyRacesTimeout sends a reply when the time of the question is over: either it is the answer, or it
// begins a process of its own, and never both.
func TestReplyRacesTimeout(t *testing.T) {
	w := &town{t: t, store: memory.New()}
	w.start(once)
	defer w.stop()
	answers := 0
	for i := range 100 {
		w.mu.Lock()
		w.heard = nil
		w.mu.Unlock()
		from, text := fmt.Sprint("p", i), fmt.Sprint("r", i)
		first, err := w.submit(from, "a"+from, "q")
		if err != nil {
			t.Fatal(err)
		}
		timer := time.NewTimer(4*time.Millisecond + time.Duration(i%20)*100*time.Microsecond)
		<-timer.C
		second, err := w.submit(from, "b"+from, text)
		if err != nil {
			t.Fatal(err)
		}
		<-first.Done
		<-second.Done
		want := []string{"asked q?", "answered q " + text}
		if !second.Given {
			want = []string{"asked q?", "answered late", "asked " + text + "?", "answered late"}
		}
		got := w.all()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%d: got %q, want %q", i, got, want)
		}
		if second.Given {
			answers++
		}
		if again, err := w.submit(from, "b"+from, text); err != nil || again.Given != second.Given || !again.Given && !again.Attached {
			t.Fatalf("%d: the reply again: %+v, %v", i, again, err)
		}
	}
	t.Logf("%d of 100 replies came in time", answers)
}

// TestReplyWhileStopping loses no reply that was taken: one that was not is an error.
func TestReplyWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &town{t: t, store: memory.New()}
		w.start(forms)
		w.says("ann", "1", "tea")
		<-time.After(2 * time.Second) // it is unloaded
		stopped := make(chan error, 1)
		go func() { stopped <- w.engine.Shutdown(t.Context()) }()
		r, err := w.submit("ann", "2", "large")
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		if err != nil && !errors.As(err, new(*node.Error)) && !errors.Is(err, node.ErrStopped) {
			t.Errorf("got %v", err)
		}
		w.store = w.store.Reopen()
		w.start(forms)
		synctest.Wait()
		if err != nil { // it is sent again
			w.says("ann", "2", "large")
		} else if !r.Given {
			t.Error("it began a run")
		}
		synctest.Wait()
		if got, want := w.all(), []string{"asked Which size, tea?", "asked How many, large?"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		w.stop()
	})
}
