package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A source is the trigger of the benchmark: it hands out what it starts processes with.
type source struct{ starters chan<- node.Starter }

func (s source) Receive(node.Process, node.Packet) node.Result { return node.None() }

func (s source) Serve(src node.Starter) error {
	s.starters <- src
	return nil
}

// kinds are a trigger, an effect that does nothing, in the two forms that a kind may
// have, and a node that passes packets on.
func kinds(starters chan<- node.Starter, called func()) []*node.Def {
	made := func(r node.Recall, kind string, receive func(node.Packet) node.Result) *node.Def {
		return &node.Def{
			Kind: kind, Summary: "Passes packets on.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}}, Recall: node.Always(r),
			New: func(*node.Init) (node.Node, error) { return pass(receive), nil },
		}
	}
	on := func(pkt node.Packet) node.Result { return node.Send(0, pkt.Payload) }
	return []*node.Def{
		{
			Kind: "source", Summary: "Starts processes for the benchmark.", Out: []node.Port{{Name: "out"}}, Recall: node.Always(node.Pure),
			New: func(*node.Init) (node.Node, error) { return source{starters}, nil },
		},
		made(node.Effects, "effect", func(pkt node.Packet) node.Result {
			called()
			return on(pkt)
		}),
		made(node.Effects, "block", func(pkt node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result { return on(pkt) })
		}),
		made(node.Pure, "hop", on),
	}
}

type pass func(node.Packet) node.Result

func (p pass) Receive(_ node.Process, pkt node.Packet) node.Result { return p(pkt) }

// chain is a document: a source, and nodes of a kind one after the other.
func chain(kind string, n int) string {
	var b strings.Builder
	b.WriteString("- {kind: source, name: source, ports: {out: [{name: n0}]}}\n")
	for i := range n {
		links := ""
		if i < n-1 {
			links = fmt.Sprintf(", ports: {out: [{name: n%d}]}", i+1)
		}
		fmt.Fprintf(&b, "- {kind: %s, name: n%d%s}\n", kind, i, links)
	}
	return b.String()
}

// serve runs a document, with the journal in a file unless that is empty. It returns the
// starter of its source. called is called in each effect that does not block.
func serve(ctx context.Context, document, file string, called func()) (e *uniflow.Engine, src node.Starter, err error) {
	starters := make(chan node.Starter, 1)
	o := uniflow.Options{Kinds: kinds(starters, called)}
	if file != "" {
		if o.Journal, err = sqlite.Open(file, sqlite.Options{}); err != nil {
			return nil, nil, err
		}
	}
	if e, err = uniflow.New(o); err != nil {
		return nil, nil, err
	}
	list, err := e.Apply(ctx, uniflow.Source{Documents: []spec.Document{{File: "bench.yaml", Data: []byte(document)}}})
	if err == nil && list.HasErrors() {
		err = list
	}
	if err != nil {
		return nil, nil, errors.Join(err, e.Shutdown(ctx))
	}
	return e, <-starters, nil
}

// payload is what runs start with, and what their effects make: 200 bytes, as it is stored.
func payload() value.Value {
	return value.Map(
		value.Field{Name: "id", Value: value.Int(4711)},
		value.Field{Name: "customer", Value: value.String("ada.lovelace@example.com")},
		value.Field{Name: "paid", Value: value.Bool(true)},
		value.Field{Name: "note", Value: value.String(strings.Repeat("0123456789", 14))},
	)
}

// engineForm starts runs through the engine, and waits for their ends.
func engineForm(ctx context.Context, j job) (f figures, err error) {
	kind := "effect"
	if j.Block {
		kind = "block"
	}
	e, src, err := serve(ctx, chain(kind, cmp.Or(j.Hops, effects)), j.File, func() {})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, e.Shutdown(context.WithoutCancel(ctx))) }()
	starter, ok := src.(node.DurableStarter)
	if !ok || !starter.Durable() {
		return f, errors.New("the starter makes no durable processes")
	}
	in := payload()
	stop, err := profiles(j.Profile)
	if err != nil {
		return f, err
	}
	var count atomic.Int64
	f, err = flights(j, func() error {
		s := node.Submission{Level: node.LevelCheckpoint, Payload: in, Same: in}
		if j.Keyed {
			s.Key, s.KeyTTL = binary.BigEndian.AppendUint64(nil, uint64(count.Add(1))*0x9e3779b97f4a7c15), time.Hour
		}
		r, err := starter.Submit(ctx, s)
		if err != nil {
			return err
		}
		<-r.Done
		if resp := r.Answer(); resp.IsError() {
			return resp.Payload.AsError()
		}
		return nil
	})
	return f, errors.Join(err, stop())
}

// flights calls run from as many goroutines as the job has flights, until its time is over or
// it has been called often enough.
func flights(j job, run func() error) (figures, error) {
	type part struct {
		took []time.Duration
		err  error
	}
	parts := make([]part, j.Flights)
	var left atomic.Int64
	left.Store(int64(j.Runs))
	var all sync.WaitGroup
	watch := begun()
	for i := range parts {
		p := &parts[i]
		all.Go(func() {
			for now := time.Now(); j.Runs > 0 && left.Add(-1) >= 0 || j.Runs == 0 && now.Sub(watch.start) < j.Span; {
				if p.err = run(); p.err != nil {
					return
				}
				end := time.Now()
				p.took = append(p.took, end.Sub(now))
				now = end
			}
		})
	}
	all.Wait()
	var took []time.Duration
	var errs []error
	for _, p := range parts {
		took, errs = append(took, p.took...), append(errs, p.err)
	}
	return watch.figures(len(took), took), errors.Join(errs...)
}

// sizeForm is what runs take in the file: engineForm with a number of runs.
func sizeForm(ctx context.Context, j job) (figures, error) {
	f, err := engineForm(ctx, j)
	if err != nil {
		return f, err
	}
	info, err := os.Stat(j.File) // the engine has copied its log
	if err != nil {
		return f, err
	}
	f.Bytes = info.Size()
	return f, nil
}
