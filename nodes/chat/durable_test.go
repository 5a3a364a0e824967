package chat_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

// A crashStore commits nothing more once the program has crashed, or while it fails.
type crashStore struct {
	*memory.Store
	crashed, full atomic.Bool
	commits       chan struct{}
	steps, ends   atomic.Int64 // that were committed
}

func newStore(s *memory.Store) *crashStore {
	return &crashStore{Store: s, commits: make(chan struct{}, 10_000)}
}

func (s *crashStore) Commit(ctx context.Context, b *journal.Batch) error {
	switch {
	case s.crashed.Load():
		return errors.New("the program has crashed")
	case s.full.Load():
		return journal.ErrFull
	}
	err := s.Store.Commit(ctx, b)
	for _, r := range b.Records {
		if r.Type == journal.Step {
			s.steps.Add(1)
		}
	}
	for _, e := range b.Ends {
		if e.State.Ended() {
			s.ends.Add(1)
		}
	}
	s.commits <- struct{}{}
	return err
}

// committed waits until a number of steps or ends is durable since the program has started.
func (s *crashStore) committed(count *atomic.Int64, n int64) {
	for count.Load() < n {
		<-s.commits
	}
}

// A shop is a bot with durability that outlives crashes. What it charges is an effect.
type shop struct {
	*site
	fake    *fake
	store   *crashStore
	mu      sync.Mutex
	charged []string
	gate    chan struct{} // that charging waits for; nil for nothing
}

func newShop(t *testing.T, platform string) *shop {
	s := &shop{fake: newFake(t, platform), store: newStore(memory.New()), site: &site{t: t}}
	s.start(s.document("checkpoint", ""))
	return s
}

// document asks for the size of each order, charges it, and answers.
func (s *shop) document(level, more string) string {
	text := strings.Replace(s.fake.document(", durability: "+level), "- {kind: test_bot, name: bot}", `
- {kind: ask, name: bot, text: "Which size, ${self.text}?", choices: [small, large], timeout: 96h, ports: {out: [{name: charge}], timeout: [{name: late}]}}
- {kind: charge, name: charge, ports: {out: [{name: thanks}]}}
- {kind: snippet, name: thanks, language: cel, code: '"a " + self.answer + " " + self.input.text'}
- {kind: snippet, name: late, language: text, code: too late}`, 1)
	return text + more
}

func (s *shop) start(document string) {
	s.t.Helper()
	charge := &node.Def{
		Kind: "charge", Summary: "Charges.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Block(func(context.Context) node.Result {
					s.mu.Lock()
					gate := s.gate
					s.mu.Unlock()
					if gate != nil {
						<-gate
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					s.charged = append(s.charged, textAt(pkt.Payload, "answer")+" "+textAt(pkt.Payload, "input", "text"))
					return node.Send(0, pkt.Payload)
				})
			}), nil
		},
	}
	s.Flow = flowtest.New(s.t, append(std.Defs(""), charge)...)
	s.Options.Clock = node.SystemClock{}
	s.Options.Journal = s.store
	s.Serve(document)
}

// crash ends the program, which writes nothing more, and starts it again.
func (s *shop) crash(document string) {
	s.t.Helper()
	s.store.crashed.Store(true)
	s.Flow.Close()
	s.store = newStore(s.store.Reopen())
	s.start(document)
}

func (s *shop) takes(body string) {
	s.t.Helper()
	if status, got := s.fake.hook(s.site, body); status != 200 {
		s.t.Fatalf("got %d %s", status, got)
	}
}

func (s *shop) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.charged...)
}

var durablePlatforms = []string{"telegram", "slack"}

// TestDurable loses neither a message nor an answer in crashes, and asks, charges and answers once, whatever
// the platform sends again.
func TestDurable(t *testing.T) {
	for _, name := range durablePlatforms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, name)
			to := place[name]
			s.takes(s.fake.message(1, "tea"))
			s.fake.wait(1)
			s.store.committed(&s.store.steps, 1)
			for i := range 3 {
				s.crash(s.document("checkpoint", fmt.Sprintf("- {kind: nop, name: another build %d}\n", i)))
				s.takes(s.fake.message(1, "tea")) // the platform has not seen the 200
			}
			s.takes(s.fake.message(2, "large"))
			s.fake.wait(2)
			s.store.committed(&s.store.ends, 1)
			s.crash(s.document("checkpoint", ""))
			s.takes(s.fake.message(2, "large"))
			s.takes(s.fake.message(3, "cake"))
			want := to + ": Which size, tea?, " + to + ": a large tea, " + to + ": Which size, cake?"
			if got := strings.Join(s.fake.wait(3), ", "); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if got := s.all(); len(got) != 1 || got[0] != "large tea" {
				t.Errorf("charged %q", got)
			}
		})
	}
}

// TestDurableDiscord answers an interaction as such while that can be, and with messages of the channel after
// a crash: what the interaction takes is not in the journal.
func TestDurableDiscord(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint(crash), func(t *testing.T) {
			t.Parallel()
			s := newShop(t, "discord")
			s.takes(s.fake.message(1, "tea"))
			s.fake.wait(1)
			s.store.committed(&s.store.steps, 1)
			want := "app: Which size, /ask tea?, app: a large /ask tea"
			if crash {
				want = strings.Replace(want, "app: a", "42: a", 1)
				for i := range 3 {
					s.crash(s.document("checkpoint", fmt.Sprintf("- {kind: nop, name: another build %d}\n", i)))
					s.takes(s.fake.message(1, "tea"))
				}
			}
			if status, got := s.fake.hook(s.site, s.fake.press(2, "large")); status != 200 || got != `{"type":6}` {
				t.Errorf("a button: got %d %s", status, got)
			}
			if got := strings.Join(s.fake.wait(2), ", "); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			s.store.committed(&s.store.ends, 1)
			s.takes(s.fake.press(2, "large"))
			if got := s.all(); len(got) != 1 || got[0] != "large /ask tea" {
				t.Errorf("charged %q", got)
			}
		})
	}
}

// TestDurableDiscordToken does not begin what it could not answer.
func TestDurableDiscordToken(t *testing.T) {
	f := newFake(t, "discord")
	document := strings.Replace(f.document(", durability: checkpoint"), "token: "+discordBot+", ", "", 1)
	flow := flowtest.New(t, append(std.Defs(""), (&bot{}).def())...)
	if list, err := flow.Apply(document); err != nil || !strings.Contains(fmt.Sprint(list), "token: is missing") {
		t.Errorf("got %v, %v", list, err)
	}
}

// TestDurableOrder runs the messages of a conversation one after the other, also those that a crash has left.
func TestDurableOrder(t *testing.T) {
	s := newShop(t, "telegram")
	document := strings.Replace(s.document("checkpoint", ""), "out: [{name: bot, port: in}]", "out: [{name: asked}]", 1) + `
- {kind: snippet, name: asked, language: cel, code: '{"answer": "one", "input": self}', ports: {out: [{name: charge}]}}`
	s.crash(document)
	s.mu.Lock()
	s.gate = make(chan struct{})
	s.mu.Unlock()
	var want []string
	for i := range 5 {
		s.takes(s.fake.message(1+i, fmt.Sprint("m", i)))
		want = append(want, fmt.Sprint("42: a one m", i))
	}
	gate := s.gate
	s.mu.Lock()
	s.gate = nil
	s.mu.Unlock()
	s.store.crashed.Store(true)
	close(gate) // the first has charged, which is not recorded
	s.crash(document)
	if got := s.fake.wait(5); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestDurableJournalFails refuses messages that the journal does not take: the platform sends them again.
func TestDurableJournalFails(t *testing.T) {
	s := newShop(t, "slack")
	s.takes(s.fake.message(1, "tea"))
	s.fake.wait(1)
	s.store.full.Store(true)
	for range 2 { // the first finds out
		if status, got := s.fake.hook(s.site, s.fake.message(2, "large")); status != 503 {
			t.Errorf("got %d %s", status, got)
		}
	}
	s.store.full.Store(false)
	for {
		if status, _ := s.fake.hook(s.site, s.fake.message(2, "large")); status == 200 {
			break
		}
	}
	if got := s.fake.wait(2)[1]; got != "D1: a large tea" {
		t.Errorf("got %q", got)
	}
}

// TestDurableNeedsJournal does not start without a journal.
func TestDurableNeedsJournal(t *testing.T) {
	f := newFake(t, "telegram")
	flow := flowtest.New(t, append(std.Defs(""), (&bot{}).def())...)
	if _, err := flow.Apply(f.document(", durability: checkpoint")); err == nil || !strings.Contains(err.Error(), "takes a journal") {
		t.Errorf("got %v", err)
	}
}
