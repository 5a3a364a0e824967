package suite

import (
	"slices"
	"strconv"
	"sync"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// maxFrames bounds the memory of a test, at some 100 bytes each and the payloads.
const maxFrames = 1_000_000

// maxSteps bounds the trail in a report.
const maxSteps = 30

// A recorder keeps what the processes of a test have sent and received, from when the
// test begins. It is the test's [node.Frames].
type recorder struct {
	test    node.Ref // which begins it
	mu      sync.Mutex
	begun   bool
	ended   bool
	frames  []frame
	nodes   map[string]int32 // indexes in refs, by id
	refs    []node.Ref
	places  map[place][]int32 // indexes of frames
	counts  map[place]int     // of all frames, also before the test begins and above maxFrames
	changed chan struct{}     // closed by the next frame; nil if no caller waits
}

// A place is a port; port is below 0 for the port "error".
type place struct {
	node, port int32
	out        bool
}

type frame struct {
	place
	payload value.Value
}

func newRecorder(test node.Ref) *recorder {
	return &recorder{test: test, nodes: make(map[string]int32), places: make(map[place][]int32), counts: make(map[place]int)}
}

func (r *recorder) observer() *observe.Observer {
	return &observe.Observer{
		Received: func(p observe.Packet) { r.add(p, false) },
		Sent:     func(p observe.Packet) { r.add(p, true) },
	}
}

func (r *recorder) add(p observe.Packet, out bool) {
	if r.keep(p, out) {
		node.FramesKey.Store(p.Process, r)
	}
}

// hasBegun reports whether the nodes have started, and the test sends.
func (r *recorder) hasBegun() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun
}

// end leaves out what the nodes do as they stop.
func (r *recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// keep adds a packet, and reports whether a process of the test begins with it.
func (r *recorder) keep(p observe.Packet, out bool) (begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := place{r.nodeLocked(p.Node), int32(p.Port), out}
	r.counts[at]++
	if p.Node.ID == r.test.ID && (!out || p.Port == 0) { // of a process that goes on after a crash, it may send before it receives
		begins, r.begun = true, true
	}
	if !r.begun || begins && !out || r.ended || len(r.frames) == maxFrames {
		return begins
	}
	r.places[at] = append(r.places[at], int32(len(r.frames)))
	r.frames = append(r.frames, frame{at, p.Payload})
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
	return begins
}

func (r *recorder) nodeLocked(ref node.Ref) int32 {
	i, ok := r.nodes[ref.ID]
	if !ok {
		i = int32(len(r.refs))
		r.nodes[ref.ID] = i
		r.refs = append(r.refs, ref)
	}
	return i
}

// Next implements [node.Frames].
func (r *recorder) Next(from int, at node.Place) (f node.Frame, index int, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	indexes := r.places[place{r.nodeLocked(at.Node), int32(at.Port), at.Out}]
	if i, _ := slices.BinarySearch(indexes, int32(min(from, maxFrames))); i < len(indexes) {
		index = int(indexes[i])
		return node.Frame{Place: at, Payload: r.frames[index].payload}, index, nil
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return node.Frame{}, 0, r.changed
}

// A Step is a packet on its way over a link.
type Step struct {
	From, Out string
	To        []string // "node port" of each link; none if the packet was the answer
	Payload   value.Value
}

// steps returns the last packets that were sent.
func (r *recorder) steps(names *portNames) (steps []Step, skipped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sent []frame
	for i := len(r.frames) - 1; i >= 0; i-- {
		at := r.frames[i].place
		if !at.out {
			continue
		}
		if def := names.kinds[r.refs[at.node].Kind]; at.port == observe.ErrorPort && def != nil && (def.Role.Has(node.Tests) || def.Role.Has(node.Judges)) {
			continue // that is why the test failed
		}
		if len(sent) < maxSteps {
			sent = append(sent, r.frames[i])
		} else {
			skipped++
		}
	}
	slices.Reverse(sent)
	for _, f := range sent {
		ref := r.refs[f.node]
		step := Step{From: ref.String(), Out: names.out(ref, int(f.port)), Payload: f.payload}
		for _, l := range names.links[linkKey{ref.ID, int(f.port)}] {
			step.To = append(step.To, l.To.String()+"."+l.In)
		}
		steps = append(steps, step)
	}
	return steps, skipped
}

// portNames finds the names of ports by their indexes. It is immutable.
type portNames struct {
	kinds  map[string]*node.Def
	graphs map[string]*node.Def       // sub-graphs, by id
	links  map[linkKey][]uniflow.Link // by where they begin
}

type linkKey struct {
	id   string
	port int
}

func newPortNames(kinds []*node.Def, outline uniflow.Outline) *portNames {
	n := &portNames{make(map[string]*node.Def), make(map[string]*node.Def), make(map[linkKey][]uniflow.Link)}
	for _, def := range kinds {
		n.kinds[def.Kind] = def
	}
	for _, v := range outline.Vertices {
		if v.Def.Subgraph != node.NoSubgraph {
			n.graphs[v.Ref.ID] = v.Def
		}
	}
	for _, l := range outline.Links {
		key := linkKey{l.From.ID, l.OutPort}
		n.links[key] = append(n.links[key], l)
	}
	return n
}

func (n *portNames) out(ref node.Ref, port int) string {
	if port == observe.ErrorPort {
		return "error"
	}
	if links := n.links[linkKey{ref.ID, port}]; len(links) > 0 {
		return links[0].Out
	}
	if def := n.graphs[ref.ID]; def != nil {
		if i := port - firstOut(def); i >= 0 && i < len(def.Out) {
			return def.Out[i].Name
		}
	} else if def := n.kinds[ref.Kind]; def != nil {
		for i, p := range def.Out {
			switch {
			case p.Indexes != nil:
				return p.Name + "[" + strconv.Itoa(port-i) + "]"
			case i == port:
				return p.Name
			}
		}
	}
	return "out[" + strconv.Itoa(port) + "]"
}
