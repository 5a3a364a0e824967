package run

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"runtime/trace"
	"time"

	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A recording is what one process has done so far. It belongs to the holder of the
// token, and each span to the code whose times it has.
type recording struct {
	v       *variants
	wanted  uint64 // bits of the recorders that get the timeline
	weight  uint64 // number of processes that it represents in the metrics
	at      int32  // where the process started
	start   time.Time
	in      observe.Trace // the process's span; zero if no recorder gets the timeline
	parent  [8]byte
	first   value.Value // the trigger's payload, if it used RunID or a recorder keeps payloads
	begun   bool        // it began with a payload, which first is
	keeps   bool        // a recorder keeps payloads
	kept    int         // their size
	started sends       // what the process began with

	// from is the packet whose node's code has run last, and what it has sent. queued are
	// the packets that wait: see task.arrived. Those from free on, linked, have been
	// delivered.
	from   sender
	queued []queued
	free   uint32
	came   queued    // the packet that is being delivered
	few    [2]queued // backs queued

	// task is the process in the runtime's execution trace, and tracing the context
	// of its regions; both are nil while no trace is taken.
	task    *trace.Task
	tracing context.Context

	chunks [][]span // spans are pointed to, so a full chunk is followed by another
	spans  int
	beyond int // packets above maxSpans, which the timeline leaves out
	pause  pause
}

// A pause thins out the measurements of a long process that is measured for the
// metrics only: it runs the plain program between them. One packet is measured
// every few checkpoints, and represents all packets since the last one. The
// distance grows, so that a process that runs for hours neither fills the memory
// nor is missing from the metrics.
type pause struct {
	checkpoints int   // until the next packet is measured
	stride      int   // checkpoints between two measured packets; 0 until the first pause
	skip        int   // packets to skip after the checkpoint; random, as a cycle may be as long as a checkpoint
	since       int64 // deliveries at the last measured packet
}

// Limits of a recording.
const (
	maxSpans    = 1000 // of a timeline
	maxMeasured = 100  // of a process that is recorded for metrics only
	sparse      = 1024 // of a process that is recorded for both: above maxSpans, one packet in so many is measured
	chunkSize   = 16
)

// maxKept is the most bytes of payloads that a timeline keeps.
const maxKept = 1 << 20

// A span is a packet at a node while the process runs.
type span struct {
	observe.Span
	at     int32
	index  int32
	weight uint64 // number of packets of the process that it represents
	sent   sends
}

// A sender is the span of a packet whose node sends others, or -1, and the out-port.
type sender struct{ span, port int32 }

// sends are the out-ports, or [observe.ErrorPort], of the packets that were sent because
// of one.
type sends struct {
	few  [3]int16
	n    uint16 // in few
	more *[]int16
}

func (s *sends) add(port int32) {
	switch {
	case int(s.n) < len(s.few):
		s.few[s.n] = int16(port)
		s.n++
	case s.more == nil:
		s.more = &[]int16{int16(port)}
	default:
		*s.more = append(*s.more, int16(port))
	}
}

// of adds the packets of a result to sends, and returns the out-port if it is one packet.
func (s *sends) of(r node.Result) (port int32) {
	switch e := r.Effect(); e.Op {
	case effect.Send, effect.Call:
		s.add(e.Port)
		return e.Port
	case effect.Fail:
		s.add(observe.ErrorPort)
		return observe.ErrorPort
	case effect.Many:
		for i := range e.More.Packets {
			s.add(int32(e.More.Packets[i].Port))
		}
	case effect.After, effect.Within:
		return s.of(e.More.Inner)
	}
	return 0
}

// A queued is a packet that waits: when it arrived, and what has sent it.
type queued struct {
	arrived time.Duration
	from    sender
	waited  bool   // it has waited
	next    uint32 // on the free list, counted from 1
}

// record begins a recording if a recorder or the metrics need one.
func (p *process) record(v *variants, at int32, weight uint64) {
	var wanted uint64
	var in, parent observe.Trace
	traced, keeps := false, false
	if len(v.Recorders) > 0 {
		parent, _ = observe.TraceOf(p.base)
	}
	for i := range v.Recorders {
		if r := &v.Recorders[i]; r.Filter == nil || r.Filter(parent) {
			wanted |= 1 << i
			traced, keeps = traced || r.Traces, keeps || r.Payloads
		}
	}
	if wanted == 0 && weight == 0 {
		return
	}
	if wanted != 0 {
		in = spanIn(parent)
		in.Sampled = traced
	}
	if traced {
		p.base = observe.WithTrace(p.base, in)
	}
	p.vertices = v.recorded
	r := &recording{
		v: v, wanted: wanted, weight: weight, at: at, start: time.Now(), in: in, parent: parent.Span, keeps: keeps, from: sender{span: -1},
	}
	r.queued = r.few[:0]
	p.rec = r
	if trace.IsEnabled() {
		ref := p.gen.prog.Vertices[at].Ref
		p.rec.tracing, p.rec.task = trace.NewTask(context.Background(), ref.String())
		if wanted != 0 {
			trace.Log(p.rec.tracing, "process", p.ID())
		}
	}
}

// spanIn returns a new span in a trace, or in a new trace. Ids are random, as the
// specification recommends; they need not be secret.
func spanIn(parent observe.Trace) observe.Trace {
	t := parent
	if t.IsZero() {
		binary.LittleEndian.PutUint64(t.ID[:], rand.Uint64()|1) // never all zeros
		binary.LittleEndian.PutUint64(t.ID[8:], rand.Uint64())
	}
	binary.LittleEndian.PutUint64(t.Span[:], rand.Uint64()|1)
	return t
}

func (r *recording) clock() time.Duration { return time.Since(r.start) }

// begin notes the result that the process begins with.
func (r *recording) begin(first node.Result) {
	r.from.port = r.started.of(first)
	e := first.Effect()
	for e.Op == effect.After { // an observer waits for the answer
		e = e.More.Inner.Effect()
	}
	if r.keeps && e.Op == effect.Send {
		r.first, r.begun = e.Payload, true
	}
}

// queue notes a packet that begins to wait, and returns what stands for it: see
// task.arrived.
func (r *recording) queue() uint32 {
	q := queued{arrived: r.clock(), from: r.from, waited: true}
	if at := r.free; at != 0 {
		r.free = r.queued[at-1].next
		r.queued[at-1] = q
		return at
	}
	r.queued = append(r.queued, q)
	return uint32(len(r.queued))
}

// deliver notes the packet that is about to be delivered.
func (r *recording) deliver(arrived uint32) {
	if arrived == 0 {
		r.came.from, r.came.waited = r.from, false
		return
	}
	r.came = r.queued[arrived-1]
	r.queued[arrived-1].next, r.free = r.free, arrived
}

// keep returns a payload, or nil if the timeline keeps none, or has too many bytes of them.
func (r *recording) keep(v value.Value) *value.Value {
	if !r.keeps {
		return nil
	}
	size := v.Size()
	if r.kept+size > maxKept {
		return nil
	}
	r.kept += size
	return new(v)
}

// add returns a new span, or nil if this packet is not recorded.
func (r *recording) add(p *process) *span {
	weight := uint64(1)
	switch {
	case r.wanted != 0 && r.spans >= maxSpans:
		r.beyond++
		if r.weight == 0 || r.beyond%sparse != 0 {
			return nil
		}
		weight = sparse
	case r.wanted == 0 && r.pause.stride > 0:
		if r.pause.skip > 0 {
			r.pause.skip--
			return nil
		}
		weight = uint64(max(1, p.deliveries-r.pause.since))
		r.beginPause(p)
	case r.wanted == 0 && r.spans+1 >= maxMeasured:
		r.beginPause(p)
	}
	last := len(r.chunks) - 1
	if last < 0 || len(r.chunks[last]) == chunkSize {
		r.chunks = append(r.chunks, make([]span, 0, chunkSize))
		last++
	}
	r.spans++
	r.chunks[last] = append(r.chunks[last], span{weight: weight, index: int32(r.spans - 1)})
	return &r.chunks[last][len(r.chunks[last])-1]
}

func (r *recording) beginPause(p *process) {
	if r.spans%maxMeasured == maxMeasured-1 {
		r.pause.stride = max(1, 2*r.pause.stride)
	}
	r.pause.checkpoints, r.pause.since = r.pause.stride, p.deliveries
	p.vertices = r.v.every
}

// checkpoint ends a pause when it is due. It is called at every checkpoint of a
// recorded process.
func (r *recording) checkpoint(p *process) {
	if r.pause.checkpoints > 0 {
		if r.pause.checkpoints--; r.pause.checkpoints == 0 {
			r.pause.skip = rand.IntN(16)
			p.vertices = r.v.recorded
		}
	}
}

// A recorded node measures the stages of its code.
type recorded struct{ at int32 }

func (n recorded) enter(facade node.Process, pkt node.Packet) middleware {
	p := owner(facade)
	r := p.rec
	s := r.add(p)
	if s == nil {
		return unrecorded
	}
	now := r.clock()
	s.at, s.Node, s.Port, s.Start = n.at, p.vertices[n.at].Ref, pkt.Port, now
	s.Replayed = replays(facade)
	s.Parent, s.Out = int(r.came.from.span), int(r.came.from.port)
	if r.keeps {
		s.Payload = r.keep(pkt.Payload)
	}
	if r.came.waited {
		s.Queue = now - r.came.arrived
		s.Start = r.came.arrived
	}
	start, tracing := r.start, r.tracing
	return func(_ node.Process, what stage, run func() node.Result) node.Result {
		if what == resumed {
			result := run()
			r.from = sender{s.index, s.sent.of(result)}
			return result
		}
		if tracing != nil {
			defer trace.StartRegion(tracing, s.Node.String()).End()
		}
		begin := time.Since(start)
		if what == awaited {
			begin = s.End // when the piece that began to wait ended
		}
		s.Error = "panic" // until run returns
		defer func() {
			s.End = time.Since(start)
			if what != running {
				s.Wait += s.End - begin
			} else {
				s.Run += s.End - begin
			}
		}()
		result := run()
		s.Error = ""
		s.note(result)
		if what != blocking { // without the token
			r.from = sender{s.index, s.sent.of(result)}
		}
		return result
	}
}

func plainly(_ node.Process, _ stage, run func() node.Result) node.Result { return run() }

// unrecorded is for a packet without a span.
func unrecorded(facade node.Process, what stage, run func() node.Result) node.Result {
	result := run()
	if what != blocking {
		owner(facade).rec.from = sender{span: -1}
	}
	return result
}

// note keeps the failure in a result, unless another node failed.
func (s *span) note(r node.Result) {
	switch e := r.Effect(); e.Op {
	case effect.Fail, effect.Answer:
		if e.Payload.IsError() {
			err := e.Payload.AsError()
			switch described := node.Describe(err); {
			case described.Node.Kind == "":
				s.Error = err.Error()
			case described.Node == s.Node: // an observer waits for the answer, and passes it on
				s.Error = described.Err.Error()
			}
		}
	case effect.After, effect.Within:
		s.note(e.More.Inner)
	}
}

// owner returns the process behind what nodes get.
func owner(facade node.Process) *process {
	if g, ok := facade.(guarded); ok {
		return g.process
	}
	return facade.(*process)
}

// end passes the recording of a process that has ended to metrics and recorders.
func (r *recording) end(p *process, outcome observe.Outcome, resp node.Response) {
	duration := r.clock()
	if r.task != nil {
		r.task.End()
	}
	if r.weight > 0 {
		if r.pause.stride > 0 { // packets since the last that was measured
			last := r.chunks[len(r.chunks)-1]
			last[len(last)-1].weight += uint64(p.deliveries - r.pause.since)
		}
		if p.origin == fromTrigger {
			p.gen.meter.node(r.at).measured(duration, 0, r.weight)
		}
		p.gen.meter.node(r.at).add(&r.started, r.weight)
		for _, chunk := range r.chunks {
			for i := range chunk {
				s := &chunk[i]
				n := p.gen.meter.node(s.at)
				n.measured(s.Own(), s.Run, s.weight*r.weight)
				n.add(&s.sent, s.weight*r.weight)
			}
		}
	}
	if r.wanted == 0 {
		return
	}
	t := &observe.Timeline{
		Process: p.ID(), Trace: r.in, Parent: r.parent, Trigger: p.gen.prog.Vertices[r.at].Ref,
		Start: r.start, Duration: duration, Outcome: outcome, Unrecorded: r.beyond,
	}
	t.Failed = outcome == observe.Failed || outcome == observe.Cancelled
	if resp.IsError() {
		t.Error = resp.Payload.AsError().Error()
	}
	if d, ok := p.gen.prog.Vertices[r.at].Node.(observe.Describer); ok && p.origin == fromTrigger {
		about := d.Describe(p.base, r.first, resp)
		t.Name, t.Attributes, t.Serves, t.Failed = about.Name, about.Attributes, about.Serves, about.Failed
	}
	if r.keeps {
		if r.begun {
			t.First = r.keep(r.first)
		}
		if !resp.None {
			t.Response = r.keep(resp.Payload)
		}
	}
	t.Spans = make([]observe.Span, 0, min(r.spans, maxSpans))
	for _, chunk := range r.chunks {
		for i := range chunk {
			if len(t.Spans) < maxSpans {
				t.Spans = append(t.Spans, chunk[i].Span)
			}
		}
	}
	p.gen.hide(t)
	for i := range r.v.Recorders {
		if r.wanted&(1<<i) != 0 {
			r.v.Recorders[i].Ended(t)
		}
	}
}

// hide hides secrets in the texts of a timeline.
func (g *Generation) hide(t *observe.Timeline) {
	t.Name, t.Error = g.secrets.Plain(t.Name), g.secrets.Text(t.Error)
	for i := range t.Attributes { // the trigger made them for this timeline
		t.Attributes[i].Text = g.secrets.Plain(t.Attributes[i].Text)
	}
	for i := range t.Spans {
		t.Spans[i].Error = g.secrets.Text(t.Spans[i].Error)
	}
}
