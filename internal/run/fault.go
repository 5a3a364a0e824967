package run

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// Only this log shows failures that go to a linked error port outside of the workflow. A
// node logs a burst of faultBurst, then one each faultPace, a source one each letterPace;
// the next record has the number of records left out. Of a bad file, all messages are
// dead letters, and metrics count them.
const (
	faultPace  = time.Second
	faultBurst = 10
	letterPace = 10 * time.Second
)

// maxMessage is the number of bytes of a message that are logged: it may contain
// what a client has sent.
const maxMessage = 200

// faults limits the rate at which the failures of each node are logged.
type faults struct {
	once  sync.Once
	since time.Time        // immutable once made
	nodes map[string]int32 // by id, immutable once made
	gates []faultGate      // by node
}

// A faultGate limits the log records of a node.
type faultGate struct {
	rate    rateLimit
	skipped atomic.Uint64
}

// pass reports whether a record may be logged, and how many were skipped since the
// last one.
func (f *faultGate) pass(now, pace time.Duration) (skipped uint64, ok bool) {
	if !f.rate.allow(now, pace, faultBurst) {
		f.skipped.Add(1)
		return 0, false
	}
	return f.skipped.Swap(0), true
}

// gate returns the gate of the node that has failed, or of the node that handles
// the failure if the former is not in the program.
func (g *Generation) gate(failed node.Ref, at int32) *faultGate {
	f := &g.faults
	f.once.Do(func() {
		f.since = time.Now()
		f.gates = make([]faultGate, len(g.prog.Vertices))
		f.nodes = make(map[string]int32, len(g.prog.Vertices))
		for i := range g.prog.Vertices {
			f.nodes[g.prog.Vertices[i].Ref.ID] = int32(i)
		}
	})
	if i, ok := f.nodes[failed.ID]; ok {
		at = i
	}
	return &f.gates[at]
}

// handled logs an error that goes to the linked error port of a node. An error with
// the status of a client's mistake is an answer that the workflow has chosen, so
// its level is debug, unless it is a message that a source gives up.
func (p *process) handled(at int32, err error) {
	if p.aborted != nil {
		return // the response has the error
	}
	e := node.Describe(err)
	level, pace := slog.LevelWarn, faultPace
	if _, source := p.gen.prog.Vertices[at].Node.(node.Finite); source {
		pace = letterPace
	} else if e.Status > 0 && e.Status < 500 {
		level = slog.LevelDebug
	}
	g := p.gen
	if !g.log.Enabled(context.Background(), level) {
		return
	}
	gate := g.gate(e.Node, at)
	skipped, ok := gate.pass(time.Since(g.faults.since), pace)
	if !ok {
		return
	}
	attrs := []slog.Attr{
		slog.String("node", e.Node.String()), slog.String("at", e.Node.Pos.String()),
		slog.String("port_of", p.vertices[at].Ref.String()),
		slog.String("process", p.ID()), slog.String("error", cut(node.Message(err))),
	}
	if e.Code != "" {
		attrs = append(attrs, slog.String("code", cut(e.Code)))
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Uint64("skipped", skipped))
	}
	g.log.LogAttrs(context.Background(), level, "error goes to an error port", attrs...)
}

func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}
