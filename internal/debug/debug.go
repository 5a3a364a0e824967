// Package debug holds processes of a running program at breakpoints, and lets them go on, for clients
// that show them.
//
// Read [Service] and [Breakpoint]. A client that stops asking loses its breakpoints, and what it holds
// goes on: a program must not stand still because a page was closed.
//
// The package must not know who asks, or how.
package debug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// Limits.
const (
	MaxBreakpoints = 256
	MaxHeld        = 16               // processes; others go on, and are counted
	Longest        = 5 * time.Minute  // that a process is held
	MaxTold        = 100              // messages a second
	patience       = 15 * time.Second // after the last call of [Service.State], until all goes on
	maxMessages    = 200              // that are kept
	longestMessage = 4 << 10          // bytes
)

// Errors of [Service.Move].
var (
	ErrGone  = errors.New("this process is not held any more")
	ErrPlace = errors.New("the payload of several packets cannot be changed")

	// A resumed run would do again what the documents say, and its records would not fit.
	ErrDurable = errors.New("a durable process goes on with what it has: nothing in it can be changed")
)

// A Condition reports whether a payload is one to hold a process for.
type Condition func(context.Context, value.Value) (bool, error)

// Options are what a service works with. All must be there.
type Options struct {
	Attach  func(*observe.Debugger) (release func(), err error) // [uniflow.Engine.Debug]
	Compile func(code string) (Condition, error)                // of [Breakpoint.When]
	Text    func(text string) (Text, error)                     // of [Breakpoint.Log]
	Redact  func(value.Value) value.Value                       // hides secrets: conditions must not find them out
}

// A Text makes a text of a payload.
type Text func(context.Context, value.Value) (string, error)

// A Breakpoint is a place where processes are held, or of which is told.
type Breakpoint struct {
	Node  string         // its id; empty for all nodes
	Point observe.Points // one
	Port  int            // of PointOut; [AnyPort] for all, as for the other points
	When  string         // a condition over the payload; empty for all
	After int            // how many times the place is passed before the first process is held
	Once  bool           // it is removed when it has held one
	Log   string         // a text over the payload: nothing is held, and the text is among [State.Messages]

	Hits   int    // how many have come there, and met the condition; not read by Set
	Faulty string // why the condition or the text could not be evaluated the last time; not read by Set

	condition Condition
	text      Text
}

// A Message is what a [Breakpoint.Log] tells.
type Message struct {
	Number  uint64 // from 1
	Time    time.Time
	Node    node.Ref
	Process string // its id
	Text    string
}

// AnyPort is the [Breakpoint.Port] of all ports.
const AnyPort = -2

// A Held is a process that is held. It must not be changed.
type Held struct {
	ID     uint64
	Since  time.Time
	At     *observe.Moment
	ByStep bool
	Of     string // the process's id

	shown  value.Value // the payload that an edit begins with, as JSON shows it
	resume func(observe.Move)
	stop   []func() bool
}

// Payload is what an edit changes: of the first packet, if the node sends several.
func (h *Held) Payload() value.Value {
	switch h.At.Point {
	case observe.PointOut:
		return h.At.Packets[0].Payload
	case observe.PointAnswer:
		return h.At.Response.Payload
	}
	return h.At.Payload
}

// move goes on with what there is.
func (h *Held) move(step observe.Step) observe.Move {
	return observe.Move{Step: step, Payload: h.At.Payload, Packets: h.At.Packets, Response: h.At.Response}
}

// State is what a service has.
type State struct {
	Breakpoints []Breakpoint
	Held        []*Held // the one that waits the longest is the first
	Skipped     int     // how many were let pass because [MaxHeld] were held

	Messages []Message // the last ones, the oldest first
	Untold   int       // messages that were left out because there were more than [MaxTold] in a second
}

// A Service has the breakpoints, and the processes that are held. Any goroutine may call its methods.
// It must be closed.
type Service struct {
	opts Options

	mu      sync.Mutex
	points  []*Breakpoint
	held    map[uint64]*Held
	last    uint64
	skipped int
	told    []Message
	number  uint64    // of the last message
	second  time.Time // in which messages are counted
	inIt    int       // messages in this second
	untold  int
	release func() // detaches from the engine; nil if it is not attached
	until   time.Time
	timer   *time.Timer
	closed  bool

	changing sync.Mutex // held while breakpoints are set: to attach takes time
}

// New returns a service without breakpoints, which nothing pays for.
func New(opts Options) *Service { return &Service{opts: opts, held: make(map[uint64]*Held)} }

// Close removes all breakpoints, and lets all processes go on.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	_ = s.Set(nil) // nothing is attached
}

// Set replaces all breakpoints. Those that were there before keep their hits.
func (s *Service) Set(points []Breakpoint) error {
	if len(points) > MaxBreakpoints {
		return fmt.Errorf("at most %d breakpoints are possible", MaxBreakpoints)
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	release := s.release
	s.mu.Unlock()
	var all []*Breakpoint
	for _, b := range points {
		if b.When != "" {
			var err error
			if b.condition, err = s.opts.Compile(b.When); err != nil {
				return err
			}
		}
		if b.Log != "" {
			var err error
			if b.text, err = s.opts.Text(b.Log); err != nil {
				return err
			}
		}
		b.Hits, b.Faulty = 0, ""
		all = append(all, &b)
	}
	if release != nil {
		release() // the engine asks which nodes are meant when a debugger is attached
	}
	s.mu.Lock()
	for _, b := range all {
		if at := slices.IndexFunc(s.points, func(other *Breakpoint) bool { return same(other, b) }); at >= 0 {
			b.Hits, b.Faulty = s.points[at].Hits, s.points[at].Faulty
		}
	}
	s.points, s.release = all, nil
	if s.closed {
		s.points = nil
	}
	attach := len(s.points) > 0
	s.until = time.Now().Add(patience)
	s.mu.Unlock()
	if !attach {
		s.letAllGo()
		return nil
	}
	release, err := s.opts.Attach(&observe.Debugger{At: s.at, Holds: s.holds, Hold: s.hold})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.points = nil
		return err
	}
	s.release = release
	if s.timer == nil {
		s.timer = time.AfterFunc(patience, s.watch)
	} else {
		s.timer.Reset(patience)
	}
	return nil
}

func same(a, b *Breakpoint) bool {
	return a.Node == b.Node && a.Point == b.Point && a.Port == b.Port && a.When == b.When && a.After == b.After && a.Once == b.Once && a.Log == b.Log
}

// watch lets all go when no client has asked for a while.
func (s *Service) watch() {
	s.mu.Lock()
	left := time.Until(s.until)
	if left > 0 && s.release != nil {
		s.timer.Reset(left)
	}
	s.mu.Unlock()
	if left <= 0 {
		_ = s.Set(nil) // nothing is attached
	}
}

func (s *Service) letAllGo() {
	s.mu.Lock()
	held := slices.Collect(maps.Values(s.held))
	s.mu.Unlock()
	for _, h := range held {
		s.goOn(h, h.move(observe.Continue))
	}
}

// State returns what there is, and lets breakpoints stay for a while longer.
func (s *Service) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(patience)
	state := State{Skipped: s.skipped, Messages: slices.Clone(s.told), Untold: s.untold, Held: slices.Collect(maps.Values(s.held))}
	for _, b := range s.points {
		state.Breakpoints = append(state.Breakpoints, *b)
	}
	slices.SortFunc(state.Held, func(a, b *Held) int { return cmp.Compare(a.ID, b.ID) })
	return state
}

// at is [observe.Debugger.At].
func (s *Service) at(ref node.Ref) (points observe.Points) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.points {
		switch {
		case b.Node != "" && b.Node != ref.ID:
		case b.Point == observe.PointOut && b.Port == observe.ErrorPort:
			points |= observe.PointFailure // not asked about all that it sends
		default:
			points |= b.Point
		}
	}
	return points
}

// holds is [observe.Debugger.Holds].
func (s *Service) holds(m *observe.Moment) bool {
	hit := m.Step
	for _, b := range s.here(m) {
		if s.hits(b, m) {
			hit = hit || b.text == nil
		}
	}
	if !hit {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) >= MaxHeld {
		s.skipped++
		return false
	}
	return !s.closed
}

// here returns the breakpoints of a moment.
func (s *Service) here(m *observe.Moment) (here []*Breakpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.points {
		if (b.Node == "" || b.Node == m.Node.ID) && b.Point == m.Point && (b.Port == AnyPort || b.Point != observe.PointOut || sends(m, b.Port)) {
			here = append(here, b)
		}
	}
	return here
}

func sends(m *observe.Moment, port int) bool {
	return slices.ContainsFunc(m.Packets, func(out node.Out) bool { return out.Port == port })
}

// hits reports whether a breakpoint holds the process.
func (s *Service) hits(b *Breakpoint, m *observe.Moment) bool {
	payload := func() value.Value {
		of := (&Held{At: m}).Payload()
		if at := slices.IndexFunc(m.Packets, func(out node.Out) bool { return out.Port == b.Port }); at >= 0 {
			of = m.Packets[at].Payload
		}
		return s.safe(value.ErrorMap(of))
	}
	if b.condition != nil {
		met, err := b.condition(m.Process.Context(), payload())
		if err != nil {
			s.fault(b, err)
			return false
		}
		if !met {
			return false
		}
	}
	if !s.due(b) {
		return false
	}
	if b.text != nil {
		text, err := b.text(m.Process.Context(), payload())
		if err != nil {
			s.fault(b, err)
			return false
		}
		s.tell(m, text)
	}
	return true
}

// fault notes that the code of a breakpoint could not be evaluated.
func (s *Service) fault(b *Breakpoint, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.Faulty = err.Error()
}

// due counts a hit, and reports whether the breakpoint holds the process, or tells of it.
func (s *Service) due(b *Breakpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.Faulty = ""
	b.Hits++
	if b.Hits <= b.After || b.text != nil && !s.mayTell() {
		return false
	}
	if at := slices.Index(s.points, b); b.Once && at >= 0 {
		s.points = slices.Delete(slices.Clone(s.points), at, at+1)
	}
	return true
}

// mayTell reports whether there is room for a message in this second. The lock is held.
func (s *Service) mayTell() bool {
	if now := time.Now(); now.Sub(s.second) >= time.Second {
		s.second, s.inIt = now, 0
	}
	if s.inIt++; s.inIt <= MaxTold {
		return true
	}
	s.untold++
	return false
}

// tell keeps a message.
func (s *Service) tell(m *observe.Moment, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	s.number++
	s.told = append(s.told, Message{s.number, time.Now(), m.Node, m.Process.ID(), text})
	if len(s.told) > maxMessages {
		s.told = slices.Delete(s.told, 0, len(s.told)-maxMessages)
	}
}

func (s *Service) safe(v value.Value) value.Value { return redact.Fields(s.opts.Redact(v)) }

// hold is [observe.Debugger.Hold].
func (s *Service) hold(ctx context.Context, m *observe.Moment, resume func(observe.Move)) {
	h := &Held{Since: time.Now(), At: m, ByStep: m.Step, Of: m.Process.ID(), resume: resume}
	if text, err := s.safe(h.Payload()).AppendJSON(nil); err == nil {
		h.shown, _ = value.ParseJSON(text) // what it has written it can read
	}
	s.mu.Lock()
	s.last++
	h.ID = s.last
	s.held[h.ID] = h
	s.mu.Unlock()
	end := context.AfterFunc(ctx, func() { s.goOn(h, h.move(observe.Continue)) })
	late := time.AfterFunc(Longest, func() { s.goOn(h, h.move(observe.Continue)) })
	s.mu.Lock()
	_, there := s.held[h.ID]
	if h.stop = []func() bool{end, late.Stop}; !there {
		end()
		late.Stop()
	}
	closed := s.closed
	s.mu.Unlock()
	if closed { // meanwhile
		s.goOn(h, h.move(observe.Continue))
	}
}

// goOn lets a process go on, and reports whether it was held.
func (s *Service) goOn(h *Held, move observe.Move) bool {
	s.mu.Lock()
	_, there := s.held[h.ID]
	delete(s.held, h.ID)
	stop := h.stop
	s.mu.Unlock()
	if !there {
		return false
	}
	for _, stop := range stop {
		stop()
	}
	h.resume(move)
	return true
}

// Move lets a process go on. With a payload it goes on with that one: parts that are as [Held.Payload] shows
// them, without secrets and as JSON, stay as they are.
func (s *Service) Move(id uint64, step observe.Step, payload *value.Value) error {
	h := s.find(id)
	if h == nil {
		return ErrGone
	}
	move := h.move(step)
	if payload != nil {
		if len(h.At.Packets) > 1 {
			return ErrPlace
		}
		edited := merge(*payload, h.shown, h.Payload())
		if h.At.Durable && !edited.Equal(h.Payload()) {
			return ErrDurable
		}
		switch h.At.Point {
		case observe.PointOut:
			move.Packets = []node.Out{{Port: h.At.Packets[0].Port, Payload: edited}}
		case observe.PointAnswer:
			move.Response = node.Response{Payload: edited}
		default:
			move.Payload = edited
		}
	}
	return s.end(h, move)
}

// Instead lets a process go on with a result in place of what the node does.
func (s *Service) Instead(id uint64, r node.Result) error {
	h := s.find(id)
	if h == nil {
		return ErrGone
	}
	if h.At.Durable {
		return ErrDurable
	}
	move := h.move(observe.Continue)
	move.Instead = &r
	return s.end(h, move)
}

func (s *Service) end(h *Held, move observe.Move) error {
	if !s.goOn(h, move) {
		return ErrGone
	}
	return nil
}

func (s *Service) find(id uint64) *Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id]
}

// merge returns the edited value, with the parts of the original that were left as they were shown: secrets, and
// what JSON has no form for.
func merge(edited, shown, original value.Value) value.Value {
	if edited.Equal(shown) {
		return original
	}
	switch {
	case edited.Kind() == value.KindMap && shown.Kind() == value.KindMap && original.Kind() == value.KindMap:
		var b value.MapBuilder
		for name, field := range edited.Fields() {
			if was, ok := shown.Get(name); ok {
				if kept, ok := original.Get(name); ok {
					field = merge(field, was, kept)
				}
			}
			b.Set(name, field)
		}
		return b.Build()
	case edited.Kind() == value.KindList && shown.Kind() == value.KindList && original.Kind() == value.KindList && shown.Len() == original.Len():
		elems := make([]value.Value, 0, edited.Len())
		for i, e := range edited.Elems() {
			if i < shown.Len() {
				e = merge(e, shown.At(i), original.At(i))
			}
			elems = append(elems, e)
		}
		return value.List(elems...)
	}
	return edited
}
