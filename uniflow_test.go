package uniflow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A probe is a kind whose nodes answer with a word and note what happens to them.
type probe struct {
	mu  sync.Mutex
	log []string
}

func (p *probe) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

// take returns what was noted since the last take.
func (p *probe) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.Join(p.log, "; ")
	p.log = nil
	return text
}

func (p *probe) def() *node.Def {
	return &node.Def{
		Kind:    "probe",
		Summary: "Answers with a word.",
		Config: schema.Fields(
			schema.String("word").Required(),
			schema.String("broken"), // what is to fail: new, open, serve
		),
		In:  []node.Port{{Name: "in"}},
		Out: []node.Port{{Name: "out"}},
		New: func(init *node.Init) (node.Node, error) {
			n := &probeNode{p, init.Config.String("word"), init.Config.String("broken")}
			if n.broken == "new" {
				return nil, errors.New("broken new")
			}
			return n, nil
		},
	}
}

type probeNode struct {
	*probe
	word, broken string
}

func (n *probeNode) Receive(node.Process, node.Packet) node.Result {
	return node.Send(0, value.String(n.word))
}

func (n *probeNode) Open(context.Context) error {
	if n.broken == "open" {
		return errors.New("broken open")
	}
	n.note("open %s", n.word)
	return nil
}

func (n *probeNode) Serve(node.Starter) error {
	if n.broken == "serve" {
		return errors.New("broken serve")
	}
	n.note("serve %s", n.word)
	return nil
}

func (n *probeNode) Stop(context.Context) error { n.note("stop %s", n.word); return nil }
func (n *probeNode) Close() error               { n.note("close %s", n.word); return nil }

func open(t *testing.T, p *probe) *uniflow.Engine {
	t.Helper()
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{p.def()}})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func source(doc string) uniflow.Source {
	return uniflow.Source{Documents: []spec.Document{{File: "test.yaml", Data: []byte(doc)}}}
}

func wantRun(t *testing.T, engine *uniflow.Engine, want string) {
	t.Helper()
	if got, _, err := engine.Run(t.Context(), "a", value.Null()); err != nil || got.String() != want {
		t.Errorf("got %s, error %v, want %s", got, err, want)
	}
}

func wantLog(t *testing.T, p *probe, want string) {
	t.Helper()
	if got := p.take(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestApply is rule 12: the new generation is fully up before the old one goes.
func TestApply(t *testing.T) {
	p := &probe{}
	engine := open(t, p)
	apply := func(doc, wantErr string) {
		t.Helper()
		list, err := engine.Apply(t.Context(), source(doc))
		got := ""
		if err = errors.Join(list.Err(), err); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, wantErr) || wantErr == "" && got != "" {
			t.Errorf("got error %q, want %q", got, wantErr)
		}
	}
	apply("- {kind: probe, name: a, word: one}", "")
	wantRun(t, engine, "one")
	wantLog(t, p, "open one; serve one")

	for _, broken := range []string{"new", "open"} {
		apply("- {kind: probe, name: a, word: bad, broken: "+broken+"}", "broken "+broken)
		wantRun(t, engine, "one")
		p.take()
	}
	apply("- {kind: probe, name: a, word: bad, broken: serve}", "broken serve")
	wantRun(t, engine, "one")
	wantLog(t, p, "open bad; serve one; stop bad; close bad")
	apply("- {kind: prob, name: a, word: bad}", "unknown kind")
	if got := engine.Status(); got.Generation != 1 || len(got.Nodes) != 1 {
		t.Errorf("got status %+v, want generation 1 with one node", got)
	}

	apply("- {kind: probe, name: a, word: two}", "")
	wantRun(t, engine, "two")
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := p.take()
	for _, part := range []string{"open two; serve two", "stop one; close one", "stop two; close two"} {
		for _, step := range strings.Split(part, "; ") {
			if !strings.Contains(log, step) {
				t.Errorf("got %s, want %s in it", log, step)
			}
		}
	}
	if _, _, err := engine.Run(t.Context(), "a", value.Null()); !errors.Is(err, uniflow.ErrShutdown) {
		t.Errorf("got %v, want ErrShutdown", err)
	}
	if _, err := engine.Apply(t.Context(), source("- {kind: probe, word: x}")); !errors.Is(err, uniflow.ErrShutdown) {
		t.Errorf("got %v, want ErrShutdown", err)
	}
}

// TestReloadUnderLoad runs processes while generations come and go: every one is
// answered, by the generation on which it began.
func TestReloadUnderLoad(t *testing.T) {
	p := &probe{}
	engine := open(t, p)
	apply := func(i int) {
		list, err := engine.Apply(t.Context(), source(fmt.Sprintf("- {kind: probe, name: a, word: w%d}", i)))
		if err = errors.Join(list.Err(), err); err != nil {
			t.Error(err)
		}
	}
	apply(0)
	done := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if got, _, err := engine.Run(t.Context(), "a", value.Null()); err != nil || !strings.HasPrefix(got.String(), "w") {
					t.Errorf("got %s, error %v", got, err)
					return
				}
			}
		})
	}
	for i := range 50 {
		apply(i + 1)
	}
	close(done)
	load.Wait()
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNew(t *testing.T) {
	p := &probe{}
	_, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{p.def(), p.def()}})
	if err == nil || !strings.Contains(err.Error(), `kind "probe" is defined twice`) {
		t.Errorf("got %v, want an error about the second probe", err)
	}
}

// nodes is a document of a chain of n nodes.
func nodes(n int) []byte {
	var doc bytes.Buffer
	for i := range n {
		fmt.Fprintf(&doc, "- kind: probe\n  name: n%d\n  word: w\n  ports:\n    out:\n      - name: n%d\n        port: in\n", i, min(i+1, n-1))
	}
	return doc.Bytes()
}

// BenchmarkApply checks and starts programs of growing size (P10).
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := &probe{}
			doc := nodes(n)
			for b.Loop() {
				engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{p.def()}})
				if err != nil {
					b.Fatal(err)
				}
				list, err := engine.Apply(b.Context(), source(string(doc)))
				if err = errors.Join(list.Err(), err, engine.Shutdown(context.Background())); err != nil {
					b.Fatal(err)
				}
				p.take()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}
