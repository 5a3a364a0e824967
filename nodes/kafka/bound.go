package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A boundWriter writes in the transaction of a source. It has no client of its own.
type boundWriter struct {
	*sinkWriter
	name string
	pool *node.Pool

	of    *transaction
	leave func() error
}

func newBoundWriter(init *node.Init, w *sinkWriter, name string) (*boundWriter, error) {
	if w.receipts {
		return nil, w.config.Errorf("answer", diag.CodeBadValue, "cannot be receipt in a transaction, which writes after the answer").WithHint("remove answer, or transaction")
	}
	if init.Vertex != nil {
		if err := checkSources(init.Vertex, name); err != nil {
			return nil, err
		}
	}
	return &boundWriter{sinkWriter: w, name: name, pool: init.Pool}, nil
}

// checkSources checks that all that comes to a sink is of the source of its transaction, and could
// be committed by that.
func checkSources(v *node.Vertex, name string) error {
	found := false
	for from := range node.Reach(node.Up, v.In, nil) {
		switch {
		case from.Def == nil: // it has errors of its own
			return nil
		case inTransaction(from, "kafka_source", name):
			found = true
			if err := checkPartners(v, from, name); err != nil {
				return err
			}
		case from.Starts() && !from.Def.Role.Has(node.Tests):
			return v.Config.Errorf("transaction", diag.CodeBadNode, "what %q starts comes here, too, and belongs to no transaction %q", from.Ref, name).
				WithHint("give that a kafka_sink of its own, without transaction")
		case from.Ref.Kind == "fork":
			return v.Config.Errorf("transaction", diag.CodeBadNode, "what %q forks comes here, which may end after the transaction of its message", from.Ref).
				WithHint("send to this node before the fork, or give the fork a kafka_sink without transaction")
		case from.Ref.Kind == "dedupe":
			return v.Config.Errorf("transaction", diag.CodeBadNode, "%q is before it, which would drop messages that come again after a transaction was aborted", from.Ref).
				WithHint("remove it: in a transaction, each message takes effect once")
		}
	}
	if !found {
		return v.Config.Errorf("transaction", diag.CodeBadNode, "no kafka_source of the transaction %q leads here", name).
			WithHint("set group and transaction: %s at the source", name)
	}
	return nil
}

// checkPartners compares a sink with its source and the other sinks, as all use one client.
func checkPartners(v, source *node.Vertex, name string) error {
	for _, field := range []string{"brokers", "tls", "sasl"} {
		if !v.Config.Value(field).Equal(source.Config.Value(field)) {
			return v.Config.Errorf(field, diag.CodeBadValue, "is not the same as that of %q, whose connection writes in the transaction %q", source.Ref, name).
				WithHint("write the same at both")
		}
	}
	for sink := range sinksOf(source, name) {
		for _, field := range []string{"compression", "max_message", "create"} {
			if !v.Config.Value(field).Equal(sink.Config.Value(field)) {
				return v.Config.Errorf(field, diag.CodeBadValue, "is not the same as that of %q, which writes in the transaction %q, too", sink.Ref, name).
					WithHint("write the same at all sinks of a transaction")
			}
		}
	}
	return nil
}

func inTransaction(v *node.Vertex, kind, name string) bool {
	return v.Def != nil && v.Ref.Kind == kind && v.Config.String("transaction") == name
}

// sinksOf returns the sinks of a transaction to which packets of a node may come, also by the
// ports error.
func sinksOf(v *node.Vertex, name string) func(yield func(*node.Vertex) bool) {
	return func(yield func(*node.Vertex) bool) {
		seen := map[*node.Vertex]bool{}
		for todo := []*node.Vertex{v}; len(todo) > 0; {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if seen[at] {
				continue
			}
			if seen[at] = true; inTransaction(at, "kafka_sink", name) && !yield(at) {
				return
			}
			if at == v || at.Def == nil || !at.Def.Begins() { // another trigger starts processes of its own
				todo = append(todo, node.Nodes(at.Out...)...)
				todo = append(todo, node.Nodes(at.Err)...)
			}
		}
	}
}

func hasSink(v *node.Vertex, name string) bool {
	for range sinksOf(v, name) {
		return true
	}
	return false
}

// Connect implements [stream.Writer]. The source connects.
func (w *boundWriter) Connect(context.Context) (err error) {
	if w.of == nil {
		w.of, w.leave, err = acquireTransaction(w.pool, w.clock, w.name)
	}
	if err == nil {
		w.of.want(producing{w.config.String("compression"), int32(w.config.Int("max_message")), w.config.Bool("create")})
	}
	return err
}

// Ready implements [node.Readier]: the source says whether there is a connection.
func (w *boundWriter) Ready() error { return nil }

// Write implements [stream.Writer]. It is not called.
func (w *boundWriter) Write(_ context.Context, records []stream.Record, done func(int, value.Value, error)) {
	for i := range records {
		done(i, value.Null(), w.of.outside())
	}
}

// Close implements [stream.Writer]: what was handed over is the source's.
func (w *boundWriter) Close(context.Context) error {
	if w.of == nil {
		return nil
	}
	return w.leave()
}

// Bind implements [stream.Binder].
func (w *boundWriter) Bind(ctx context.Context) (stream.Bound, error) {
	r := w.of.runOf(ctx)
	if r == nil {
		return nil, w.of.outside()
	}
	return bound{w, r}, nil
}

// A bound writer is one in a run.
type bound struct {
	*boundWriter
	run *run
}

// recordOverhead is what a record takes in a batch of its own, at most, in addition to its bytes.
const recordOverhead = 128

// Check implements [stream.Bound].
func (b bound) Check(from *stream.Record) error {
	var rec kgo.Record
	if err := b.fill(&rec, from); err != nil {
		return err
	}
	size := bytesIn(&rec) + recordOverhead
	for _, h := range rec.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if most := b.config.Int("max_message"); int64(size) > int64(most) {
		return node.Unusable("too_large", fmt.Errorf("the message has %d bytes with its header, more than max_message allows", size))
	}
	if refused, ok := b.of.suspect(&rec); ok && refused.alone {
		return refused.err
	}
	return nil
}

// fill is record for a client that other sinks use, too.
func (b bound) fill(to *kgo.Record, from *stream.Record) error {
	err := b.record(to, from)
	if b.hasPartition {
		to.Context = manual
	}
	return err
}

// HandOver implements [stream.Bound].
func (b bound) HandOver(records []stream.Record, done func(error)) error {
	made := make([]kgo.Record, len(records))
	var errs []error
	for i := range records {
		errs = append(errs, b.fill(&made[i], &records[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range made {
		if err := b.run.produce(&made[i], done); err != nil {
			return err
		}
	}
	return nil
}
