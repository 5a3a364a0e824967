package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

// Def returns the kind. It panics if the source is not complete.
func (s Source) Def(o Options) *node.Def {
	if s.Kind == "" || s.Open == nil {
		panic("stream: a source needs a kind and Open")
	}
	config := s.Config.With(s.fields()...)
	fields := config.All()
	return &node.Def{
		Kind: s.Kind, Summary: s.Summary, Page: node.Page{Doc: s.Doc, Example: s.Example}, Config: config,
		Out:   []node.Port{{Name: "out", Doc: "A message, or with `batch` a list of them. The answer acknowledges it."}},
		Error: "A message that cannot be decoded, or whose attempts are used up: the error, with the message as `data`. A good answer acknowledges it; after an error it is sent here again. Without a link, it waits and is tried again.",
		Traits: func(c schema.Config) node.Traits {
			t := node.Traits{Is: node.RepeatsErrors | field.DurableTrait(c), Gives: field.DurabilityGives(c), InFlight: inProcesses(c)}
			if s.Holds != nil {
				t.Holds = s.Holds(c)
			}
			if file := checkpointFile(c); file != "" {
				t.Holds = append(t.Holds, node.Hold{What: "file of positions", Name: filepath.Clean(file), Field: "checkpoint", Hint: "give each source a file of its own"})
			}
			return t
		},
		Recall: node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			set, err := s.read(init, o, fields)
			if err != nil {
				return nil, err
			}
			if init.Job != nil && init.Job.Letters != "" {
				return s.again(init, set), nil
			}
			reader, err := s.Open(init)
			if err != nil {
				return nil, err
			}
			if _, ok := reader.(Resumer); !ok && set.file != "" {
				return nil, errors.New("the reader of a source with checkpoints is not a Resumer")
			}
			return &sourceNode{
				source: &s, settings: set, init: init, log: init.Log, reader: reader, letters: init.ErrorLinks > 0,
				ends: s.Ends != nil && s.Ends(init.Config), finished: make(chan struct{}),
			}, nil
		},
	}
}

// checkpointFile returns the file that a source keeps its positions in; empty if there is none.
func checkpointFile(c schema.Config) string {
	in, field := c.Find("checkpoint.file")
	if field != "file" {
		return ""
	}
	return in.String(field)
}

// inProcesses returns how many messages of a source are in processes at a time, at most.
func inProcesses(c schema.Config) int {
	most := InFlight(c)
	switch {
	case c.String("order") != OrderTotal.String():
	case c.Has("batch"):
		most = min(most, int(c.Group("batch").Int("count")))
	default:
		most = 1
	}
	return most
}

// InFlight returns how many messages a source may hold that are not settled: its field
// max_in_flight, or four batches, if they are more and it is unset. So the reader, the
// processors and the systems downstream are at work at the same time.
func InFlight(c schema.Config) int {
	most := int(c.Int("max_in_flight"))
	if c.Has("batch") && !c.Has("max_in_flight") {
		most = max(most, 4*int(c.Group("batch").Int("count")))
	}
	return most
}

// A sourceNode is a source in one generation. What it reads with is shared.
type sourceNode struct {
	source   *Source
	settings *settings
	init     *node.Init
	log      *slog.Logger
	reader   Reader // until a consumer has it
	letters  bool   // the port error is linked
	ends     bool
	finished chan struct{}
	once     sync.Once
	requeues requeues

	shared  *shared
	release func() error

	// Guarded by shared.
	consumer   *consumer
	generation *generation // nil until it serves
}

// Receive is never called: a source has no in-port.
func (n *sourceNode) Receive(node.Process, node.Packet) node.Result { return node.None() }

// Open connects, unless an earlier generation has a connection. Without one, it goes on
// to try in the background.
func (n *sourceNode) Open(ctx context.Context) error {
	key := fmt.Sprintf("source %q %q %q", n.source.Kind, n.init.Node.Namespace, n.init.Node.String())
	of, release, err := node.Acquire(n.init.Pool, key, func() (*shared, error) { return new(shared), nil })
	if err != nil {
		return err
	}
	n.shared, n.release = of, release
	if n.settings.file != "" {
		unclaim, err := n.claim()
		if err != nil {
			return errors.Join(err, release())
		}
		n.release = func() error { return errors.Join(unclaim(), release()) }
	}
	if err := n.shared.open(ctx, n); err != nil {
		return errors.Join(field.Place(err, n.init.Config), n.release())
	}
	return nil
}

// Serve begins to read, or takes over what an earlier generation reads.
func (n *sourceNode) Serve(src node.Starter) error {
	if d := n.settings.durability; d != nil {
		if _, err := d.Starter(src); err != nil {
			return err
		}
	}
	if err := n.shared.serve(n, src); err != nil {
		return err
	}
	n.requeues.serve(src)
	return nil
}

// Stop ends what Serve began, and requeues: letters that have not ended stay in their file.
func (n *sourceNode) Stop(ctx context.Context) error {
	again := n.requeues.stop()
	errs := []error{n.shared.leave(ctx, n)}
	for _, c := range again {
		errs = append(errs, c.drain(ctx))
	}
	return errors.Join(errs...)
}

// Close lets go of what is shared.
func (n *sourceNode) Close() error {
	n.shared.drop(n)
	return n.release()
}

// Ready implements [node.Readier].
func (n *sourceNode) Ready() error {
	if n.shared == nil {
		return nil
	}
	c := n.shared.newest()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.failure != nil {
		return c.mu.failure
	}
	if err := c.connection.ready(c.reader); err != nil {
		return err
	}
	return c.outages.ready()
}

// Ends implements [node.Finite].
func (n *sourceNode) Ends() bool { return n.ends }

// Exhausted implements [node.Finite]. What waits for an attempt is work that will come.
func (n *sourceNode) Exhausted() bool {
	c := n.reads()
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.ended && c.order.n == 0 && c.unready.len() == 0 && c.due.len() == 0 && len(c.retrier.waiting) == 0
}

// Finished implements [node.Finite].
func (n *sourceNode) Finished() <-chan struct{} { return n.finished }

// finish says that all messages are settled.
func (n *sourceNode) finish() { n.once.Do(func() { close(n.finished) }) }

// Progress implements [node.Finite].
func (n *sourceNode) Progress() node.Progress {
	if n.shared == nil { // it has not opened
		return node.Progress{}
	}
	counts := &n.shared.counts
	p := node.Progress{
		Messages: counts.acknowledged.Load() + counts.letters.Load(), Failed: counts.failed.Load(), DeadLetters: counts.letters.Load(),
	}
	c := n.reads()
	if c == nil {
		return p
	}
	if sized, ok := c.reader.(Sized); ok {
		p.Done, p.Total = sized.Size()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Err = c.mu.failure
	return p
}
