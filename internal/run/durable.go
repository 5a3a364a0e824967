package run

import (
	"errors"
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/internal/ground/kill"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A durable process runs a variant of the program, in which each node is wrapped. So nothing
// is asked per packet of any other process.
//
// The wrapper gives each packet that a node receives an activation, which knows where in the
// run it is: its position is a hash of the path of causes that led to it, and never of the
// time. Results of nodes are recorded under their positions. A process that runs again has
// the same positions, so it finds its records: see replay.go.

// A RecordType says what a [Record] is about.
type RecordType uint8

// The types of records.
const (
	ResultRecord  RecordType = iota // what a node made of a packet
	NoteRecord                      // a decision of a node, see [node.Run]
	HoldRecord                      // a wait has begun; Payload is when it ends, and its secret
	ArrivalRecord                   // a wait, or work that decides nothing, has ended
	ChildRecord                     // a child process has ended
	StepRecord                      // what a step of a node has given, see [node.Step]
)

// A Record is something about a durable process that a crash must not lose.
type Record struct {
	Pos     uint64
	Node    string // id
	Type    RecordType
	Op      effect.Op // of a result: Answer, None, Fail or Send; of the end of a wait: Answer or None
	Port    int32     // of a Send
	Payload value.Value
	Input   value.Value // of the packet; not in a record that was read
	Hash    uint64      // of Input, in a record that was read
	Key     uint64      // of a result that is a failure or follows one: the same for all attempts; see [Forgotten]

	Copied bool // in a record that was read: another run has made it, see [Kept]

	Wait *Wait  // that begins, at Pos; nil in a record that was read
	Over uint64 // position of the wait that ends; likewise 0
}

// A Kept keeps the records of one durable process, its children included. The methods may be
// called from any goroutine, and do not block.
type Kept interface {
	// ID is the UUID of the run, Level what of it is recorded.
	ID() uuid.UUID
	Level() node.Level

	// Records returns what was recorded before a crash, in order, or by an earlier attempt of a run
	// that has failed.
	Records() (records []Record, again bool)

	// Whole is [node.Run.Whole].
	Whole(payload value.Value) (whole value.Value, lost bool)

	// From is the id of the node from which on all is done again that was copied from another run; empty for none.
	From() string

	// Hash is what the input of a record that was read is compared with.
	Hash(input value.Value) uint64

	// Add adds a record, without waiting.
	Add(Record)

	// Hold lets a signal for the wait at a position be given to wake, once the process may have it. wake
	// reports whether it has taken it. It does not block, and runs nothing of the process.
	Hold(pos uint64, wake func(value.Value) bool)

	// Idle is called when the run only waits, or stops, each time. unload ends its processes, which then
	// call Abandon with [ErrUnloaded]; it reports false if the run does something else by then.
	Idle(unload func() bool)

	// Stops reports whether the run is to stop: what would begin is held until its processes are unloaded. It stays
	// so until they are, or have ended.
	Stops() bool

	// Barrier reports whether all that was added is durable. If not, it calls done when it is,
	// or with an error if it cannot be: then nothing may leave the process.
	Barrier(done func(error)) (passed bool)

	// End records how the process has ended, and calls done when that is durable.
	End(resp node.Response, failure error, done func(error))

	// Abandon says that the process ends without an end of the run: it goes on when the run is
	// resumed. err is why; [ErrDiverged] puts the run aside.
	Abandon(err error)
}

// ErrDiverged says that a process that ran again did something else than its records say.
var ErrDiverged = errors.New("the run does not fit its records: the workflow or a node has changed")

// errUnloaded is the answer of a process that was abandoned.
func errUnloaded(err error) error {
	return &node.Error{Err: &unloaded{err}, Status: http.StatusServiceUnavailable}
}

// An unloaded is [node.ErrUnloaded], with the reason.
type unloaded struct{ err error }

func (u *unloaded) Error() string {
	return "the run could not go on, and is resumed later: " + u.err.Error()
}
func (u *unloaded) Unwrap() error        { return u.err }
func (u *unloaded) Is(target error) bool { return target == node.ErrUnloaded }

// An activation is one packet at one node of a durable process, or the start of one. The
// holder of the process's token owns it, except for what does not change.
type activation struct {
	run *durable // immutable
	ref *node.Ref
	pos uint64 // immutable
	key uint64 // likewise; hashed along the same path without repeated attempts

	payload value.Value // what came; immutable
	pieces  uint32      // pieces of the node's code that have run
	keyed   uint32      // likewise, without those that have repeated an attempt
	again   uint32      // attempts that were repeated in a row
	notes   uint32
	holds   uint32
	recall  node.Recall
	keeps   bool // see [node.Run]
	redone  redone
}

// mix adds a number to a hash. It must not change: positions are stored. The constants are
// those of xxHash64.
func mix(h, x uint64) uint64 {
	h ^= bits.RotateLeft64(x*0xC2B2AE3D27D4EB4F, 31) * 0x9E3779B185EBCA87
	h = bits.RotateLeft64(h, 27)*0x9E3779B185EBCA87 + 0x85EBCA77C2B2AE63
	return h ^ h>>29
}

// mixText adds a text to a hash.
func mixText(h uint64, s string) uint64 {
	for i := range len(s) {
		h = mix(h, uint64(s[i]))
	}
	return h
}

// from returns the activation whose packet has a continuation, and the hashes of the way from
// there: the slots of the frames between.
func (p *process) from(to continuation) (a *activation, way uint64) {
	for f := to.frame; ; f = to.frame {
		if len(f.resps) > 1 { // frames of those who watch have one slot: they must not change positions
			way = mix(way, uint64(to.slot))
		}
		if f.act != nil {
			return f.act, way
		}
		to = f.up
	}
}

// activate returns the activation of the packet that a node receives now, or of a child
// process that starts.
func (p *process) activate(ref *node.Ref, idHash, port uint64, to continuation, payload value.Value) *activation {
	from, way := p.from(to)
	way = mix(mix(way, idHash), port)
	a := &activation{
		run: from.run, ref: ref, payload: payload, again: from.again,
		pos: mix(mix(from.pos, uint64(from.pieces)), way),
		key: mix(mix(from.key, uint64(from.keyed)), way),
	}
	if from.run.from != "" {
		a.comesFrom(from, idHash)
	}
	return a
}

// durables returns the variant of a program for durable processes.
func durables(vertices []compile.Vertex) []compile.Vertex {
	return wrap(vertices, func(at int32, v *compile.Vertex) node.Node {
		d := &durableNode{Node: v.Node, ref: &v.Ref, recall: v.Recall, id: mixText(0, v.Ref.ID)}
		if d.recall == node.Effects {
			d.reader, _ = v.Node.(node.Reader)
		}
		return d
	})
}

// A durableNode is a node of a durable process.
type durableNode struct {
	node.Node
	ref    *node.Ref
	recall node.Recall
	reader node.Reader // nil if all its packets are alike
	id     uint64      // hash of the id
}

func (d *durableNode) Receive(facade node.Process, pkt node.Packet) node.Result {
	p := owner(facade)
	a := p.activate(d.ref, d.id, uint64(pkt.Port), p.current.to, pkt.Payload)
	if a.recall = d.recall; d.reader != nil && d.reader.Reads(pkt) {
		a.recall = node.Reads
	}
	r := node.After(d.receive(p, facade, pkt, a), passOn)
	r.Effect().More.Mark = a
	return r
}

func passOn(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) }

// receive lets the node have the packet, or takes what is recorded of it.
func (d *durableNode) receive(p *process, facade node.Process, pkt node.Packet, a *activation) node.Result {
	run := a.run
	if err := run.failed(); err != nil {
		return node.Answer(value.Error(errUnloaded(err)))
	}
	if d.recall == node.Attached {
		return node.Answer(value.Error(p.misuse(p.current.node, "a durable process must not reach it, as it could not be resumed")))
	}
	if run.replays(a.pos, a, a.decides()) {
		return run.turn(a.pos, a, func(facade node.Process, rec *Record) node.Result {
			if rec != nil {
				a.decided()
				return rec.result()
			}
			return d.enter(facade, pkt, a)
		})
	}
	return d.enter(facade, pkt, a)
}

// checkRecords checks the run's budget of records. A run without an end would fill the journal, and take as long to
// resume as it has run.
func (p *process) checkRecords(run *durable) {
	switch b := &p.gen.budget; {
	case run.records.Load() >= int64(b.Records):
		p.abort(p.overBudget(diag.CodeRecords, "records of a durable process", b.Records))
	case run.bytes.Load() >= int64(b.RecordBytes):
		p.abort(p.overBudget(diag.CodeRecordBytes, "bytes of records of a durable process", b.RecordBytes))
	}
}

// enter lets the node have the packet, once all is durable that must be before.
func (d *durableNode) enter(facade node.Process, pkt node.Packet, a *activation) node.Result {
	if a.run.live.Load() { // before, all that comes has been within the budget
		p := owner(facade)
		if p.checkRecords(a.run); p.aborted != nil {
			return node.Answer(value.Error(p.aborted))
		}
	}
	code := func(facade node.Process) node.Result {
		kill.At(kill.BarrierPassed, a.recall == node.Effects)
		return a.piece(facade, func() node.Result { return d.Node.Receive(facade, pkt) })
	}
	switch {
	case a.recall == node.Effects:
		return a.run.first(code)
	case a.recall == node.Reads && a.run.kept.Stops():
		return a.run.wait(a.run.brake, code)
	}
	return code(facade)
}

// decides reports whether what the node does is decided outside of the process.
func (a *activation) decides() bool {
	return a.recall == node.Effects || a.recall == node.Reads || a.keeps
}

// decided makes what the node's result leads to stand at the same position whether the node has run or
// its record was taken.
func (a *activation) decided() { a.pieces, a.keyed = 0, 0 }

// result returns the result that a record is of.
func (rec *Record) result() node.Result {
	switch rec.Op {
	case effect.None:
		return node.None()
	case effect.Fail:
		return node.Fail(rec.Payload.AsError())
	case effect.Send:
		return node.Send(int(rec.Port), rec.Payload)
	default:
		return node.Answer(rec.Payload)
	}
}

// response returns the response that ended a wait.
func (rec *Record) response() node.Response {
	return node.Response{Payload: rec.Payload, None: rec.Op == effect.None}
}

// piece runs a piece of the node's code, follows its result and records what it decides.
func (a *activation) piece(facade node.Process, run func() node.Result) node.Result {
	p := owner(facade)
	outer := p.act
	p.act = a
	r := run()
	p.act = outer
	first := a.pieces == 0
	a.pieces++
	e := r.Effect()
	if e.Again {
		a.again++
	} else {
		a.keyed, a.again = a.pieces, 0
	}
	r = a.follow(r)
	switch e = r.Effect(); e.Op {
	case effect.Sleep:
		return a.sleep(r)
	case effect.Block, effect.Await:
		if a.recall == node.Effects && !first { // before the first piece there was a barrier
			return a.run.barrier(func(node.Process) node.Result { return r })
		}
		return r
	case effect.Fork:
		if inner := e.More.Inner.Effect(); inner.Op == effect.Send || inner.Op == effect.Call {
			return node.Answer(value.Error(p.misuse(p.current.node, "a durable process cannot fork yet")))
		}
	}
	if !a.decides() {
		return r
	}
	switch e.Op {
	case effect.Answer, effect.None, effect.Send, effect.Fail:
		if p.aborted == nil {
			rec := Record{Pos: a.pos, Node: a.ref.ID, Type: ResultRecord, Op: e.Op, Port: e.Port, Payload: e.Payload, Input: a.payload}
			if a.again > 0 || rec.failed() {
				rec.Key = a.key
			}
			kill.At(kill.EffectDone, a.recall == node.Effects)
			a.run.add(rec)
			kill.At(kill.RecordAdded, a.recall == node.Effects)
		}
		a.decided()
		return r
	}
	return node.Answer(value.Error(p.misuse(p.current.node, "its result is recorded, so it cannot continue after responses")))
}

// follow makes the functions in a result pieces of the activation. It changes a copy, as a node
// may use the same result for all packets.
func (a *activation) follow(r node.Result) node.Result {
	e := r.Effect()
	if e.More == nil {
		return r
	}
	more := *e.More
	if more.Step {
		return a.step(r)
	}
	if then := more.Then; then != nil {
		more.Then = func(p node.Process, resp node.Response) node.Result {
			return a.piece(p, func() node.Result { return then(p, resp) })
		}
	}
	if all := more.ThenAll; all != nil {
		more.ThenAll = func(p node.Process, resps []node.Response) node.Result {
			return a.piece(p, func() node.Result { return all(p, resps) })
		}
	}
	if more.Block != nil || more.Await != nil {
		inner, awaits := more.Awaited, more.Await != nil && !a.run.live.Load()
		if awaits {
			a.run.await(1)
		}
		more.Awaited = func(p node.Process, r node.Result) node.Result {
			if awaits {
				a.run.await(-1)
			}
			return a.arrived(p, func(p node.Process) node.Result {
				return a.piece(p, func() node.Result {
					if inner != nil {
						return inner(p, r)
					}
					return r
				})
			})
		}
	}
	if e.Op == effect.After || e.Op == effect.Within {
		more.Inner = a.follow(more.Inner)
	}
	e.More = &more
	return r
}

// step does a step of the node, unless it has a record, and goes on with what that gives.
func (a *activation) step(r node.Result) node.Result {
	run, then := a.run, r.Effect().More.Then
	pos := mix(mix(a.pos, uint64(StepRecord)), uint64(a.pieces))
	if a.decides() { // on resume its packets wait for their results, which steps come before
		return node.Answer(value.Error(&node.Error{Err: errSteps, Code: string(diag.CodeMisuse), Node: *a.ref}))
	}
	more := *r.Effect().More
	more.Step, more.Then = false, nil
	more.Awaited = func(facade node.Process, r node.Result) node.Result {
		if e := r.Effect(); e.Op == effect.After && owner(facade).aborted == nil {
			run.add(Record{Pos: pos, Node: a.ref.ID, Type: StepRecord, Payload: e.More.Inner.Effect().Payload})
		}
		return a.piece(facade, func() node.Result { return r })
	}
	r.Effect().More = &more
	do := func(node.Process) node.Result { return r }
	if !run.replays(pos, a, true) {
		return run.first(do)
	}
	return run.turn(pos, a, func(facade node.Process, rec *Record) node.Result {
		if rec == nil {
			return run.first(do)
		}
		return a.piece(facade, func() node.Result { return node.After(node.Answer(rec.Payload), then) })
	})
}

var errSteps = errors.New("its results are recorded, so it cannot have steps: a node with steps says node.Reruns")

// first is barrier for what has not begun: a run that stops does so there.
func (run *durable) first(then func(node.Process) node.Result) node.Result {
	if run.kept.Stops() {
		return run.wait(run.brake, then)
	}
	return run.barrier(then)
}

// barrier returns a result that goes on when all that was recorded is durable.
func (run *durable) barrier(then func(node.Process) node.Result) node.Result {
	return run.wait(func(done func(error)) {
		c := run.gen.busyClock
		if c != nil { // a clock of tests stands still meanwhile
			c.Begin()
		}
		over := func(err error) {
			done(err)
			if c != nil {
				c.End()
			}
		}
		if run.kept.Barrier(over) {
			over(nil)
		}
	}, then)
}

// durableSleep is from when on a sleep is a hold: after a crash it goes on for the rest of its time.
const durableSleep = time.Second

// sleep returns a result that sleeps as r does, and does so once.
func (a *activation) sleep(r node.Result) node.Result {
	if err := a.run.failed(); err != nil { // or an attempt would follow the other
		return node.Answer(value.Error(errUnloaded(err)))
	}
	e := r.Effect()
	then, delay := e.More.Then, e.More.Delay
	switch m := e.More.Mark.(type) {
	case *hold:
		return m.result(then)
	}
	if delay >= durableSleep {
		return a.hold(Wait{}, delay, false).result(then)
	}
	if pos := a.arrival(); a.run.replays(pos, a, false) {
		return a.run.turn(pos, a, func(facade node.Process, _ *Record) node.Result {
			return then(facade, node.Response{None: true})
		})
	}
	if !a.run.live.Load() {
		a.run.mu.Lock()
		a.run.mu.sleeps++
		a.run.mu.Unlock()
	}
	return node.Sleep(delay, func(facade node.Process, resp node.Response) node.Result {
		return a.arrived(facade, func(facade node.Process) node.Result { return then(facade, resp) })
	})
}

// arrival is the position of what the activation waits for.
func (a *activation) arrival() uint64 {
	return mix(mix(a.pos, uint64(ArrivalRecord)), uint64(a.pieces))
}

// arrived goes on with something that the process has waited for. The order in which such things
// come is recorded, as all that follows depends on it; what is decided by them has a record anyway.
func (a *activation) arrived(facade node.Process, then func(node.Process) node.Result) node.Result {
	run, pos := a.run, a.arrival()
	if a.decides() {
		return then(facade)
	}
	goOn := func(facade node.Process, rec *Record) node.Result {
		if rec == nil && owner(facade).aborted == nil {
			run.add(Record{Pos: pos, Node: a.ref.ID, Type: ArrivalRecord})
		}
		return then(facade)
	}
	if run.live.Load() {
		return goOn(facade, nil)
	}
	return run.turn(pos, a, goOn)
}

// childActivation returns the activation of a child process that a node asks for.
func (p *process) childActivation(at int32, to continuation, payload value.Value) *activation {
	ref := &p.gen.prog.Vertices[at].Ref
	a := p.activate(ref, mixText(0, ref.ID), uint64(ChildRecord), to, payload)
	a.recall = node.Reruns // a child only begins what its node asks for
	return a
}

// The methods below implement node.Run.

// Run returns the durable run of the code that runs now.
func (p *process) Run() (node.Run, bool) {
	if p.act == nil {
		return nil, false
	}
	return p.act, true
}

func (a *activation) ID() string { return a.run.kept.ID().String() }

func (a *activation) Level() node.Level { return a.run.kept.Level() }

func (a *activation) Key() string {
	return a.ID() + "-" + strconv.FormatUint(a.key, 36)
}

func (a *activation) Attempt() int { return int(a.again) + 1 }

func (a *activation) Keep() { a.keeps = true }

func (a *activation) Whole(payload value.Value) (value.Value, bool) { return a.run.kept.Whole(payload) }

func (a *activation) Replays() bool { return !a.run.live.Load() }

func (a *activation) Note(decide func() value.Value) value.Value {
	a.notes++
	return a.run.record(a, mix(mix(a.pos, uint64(NoteRecord)), uint64(a.notes)), func() Record {
		return Record{Type: NoteRecord, Payload: decide()}
	})
}
