package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// taken is a program that reads changes, and what it has got.
type taken struct {
	engine *uniflow.Engine
	log    syncbuffer.Buffer
	stop   func()
	tick   *time.Ticker
	hold   func(value.Value) // called before a message is answered, one after the other with forget; nil holds none
	forget bool              // messages are not kept
	clock  node.Clock        // nil is that of the machine

	sync.Mutex
	keys     map[string]int // how often each key has come
	messages []value.Value
}

// cdc is a document that reads the changes of the table item.
func (s *system) cdc(fields ...string) string {
	return fmt.Sprintf("- {kind: postgres_cdc, name: source, source: '%s', slot: %s, publication: p, tables: item%s, ports: {out: [{name: take}]}}\n- {kind: take, name: take}\n",
		s.url(s.server.Addr), s.name, strings.Join(append([]string{""}, fields...), ", "))
}

// newTaken starts a document.
func newTaken(t testing.TB, doc string) *taken {
	t.Helper()
	k := &taken{keys: make(map[string]int)}
	if err := k.start(t, doc); err != nil {
		t.Fatal(err)
	}
	return k
}

// start starts a document, and returns what is wrong with it.
func (k *taken) start(t testing.TB, doc string) error {
	t.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: append(std.Defs(""), k.def()), Clock: k.clock, Log: slog.New(slog.NewTextHandler(&k.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	k.engine, k.tick = e, time.NewTicker(5*time.Millisecond)
	k.stop = sync.OnceFunc(func() {
		k.tick.Stop()
		if err := e.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(k.stop)
	list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
	if err == nil && list.HasErrors() {
		err = list
	}
	return err
}

func (k *taken) def() *node.Def {
	return &node.Def{
		Kind: "take", Summary: "Keeps what it gets.", In: []node.Port{{Name: "in"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				if k.forget {
					k.Lock()
					defer k.Unlock()
				}
				if k.hold != nil {
					k.hold(pkt.Payload)
				}
				if k.forget {
					return node.None()
				}
				key, _ := pkt.Payload.Get("key")
				k.Lock()
				defer k.Unlock()
				k.keys[key.String()]++
				k.messages = append(k.messages, pkt.Payload)
				return node.None()
			}), nil
		},
	}
}

// until waits.
func (k *taken) until(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		k.Lock()
		ok := is()
		k.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s; %d messages, ready: %v\n%s", what, len(k.messages), k.engine.Ready(), k.log.String())
		}
		<-k.tick.C
	}
}

// connected waits until the program is ready.
func (k *taken) connected(t testing.TB) {
	t.Helper()
	k.until(t, "the program is ready", func() bool { return len(k.engine.Ready()) == 0 })
}

// A brisk clock makes a second of the 10 s between two reports to the server, and leaves the rest.
type brisk struct{ node.SystemClock }

func (c brisk) AfterFunc(d time.Duration, f func(context.Context)) (stop func() bool) {
	if d == 10*time.Second {
		d = time.Second
	}
	return c.SystemClock.AfterFunc(d, f)
}
