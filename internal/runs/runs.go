// Package runs shows the durable runs of a journal as the admin API has them: of a running program, or of
// a file that no program has open.
//
// Read [View] first.
//
// The package must not know where a journal is kept, or who may see what.
package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A View shows the runs of a journal. All fields are required. Any goroutine may call its methods.
type View struct {
	Journal   journal.Reader
	Nodes     func() []node.Ref // that are served
	Namespace string            // of the trigger that is named, and of nodes in documents that name none

	Redact  func(string) string            // hides secrets in texts
	Payload func(*value.Value) api.Payload // shows a payload without secrets; nil is none
}

// A Query is what to list. Zero fields select all.
type Query struct {
	States    []string
	Trigger   string // name or id
	Queue     string // name
	Namespace string // of the trigger; that of the view by default
	Since     time.Time
	After     string // the next page: what [api.Runs] says
	Limit     int    // [api.MaxRuns] at most, which 0 is, too
}

// A QueryError says what of a query cannot be used.
type QueryError struct{ Message, Hint string }

func (e *QueryError) Error() string { return e.Message }

// levels are by their [node.Level].
var levels = [...]string{node.LevelNone: "none", node.LevelAccept: "accept", node.LevelCheckpoint: "checkpoint"}

// States returns the names of the states of a run.
func States() (names []string) {
	for s := journal.Queued; s <= journal.Diverged; s++ {
		names = append(names, s.String())
	}
	return names
}

func parseStates(names []string) (states []journal.State, err error) {
	all := States()
	for _, name := range names {
		i := slices.Index(all, name)
		if i < 0 {
			return nil, &QueryError{fmt.Sprintf("state: got %q", name), "the states are " + strings.Join(all, ", ")}
		}
		states = append(states, journal.State(i))
	}
	return states, nil
}

// ParseID returns the id of a run.
func ParseID(text string) (journal.ID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return journal.ID{}, &QueryError{fmt.Sprintf("%q is not the id of a run", text), "it is the header Uniflow-Run of an answer, and uniflow runs list prints it"}
	}
	return journal.ID(id), nil
}

// find returns the runs that a query selects, the latest first, and where the next page begins; nowhere if it
// is empty.
func (v *View) find(ctx context.Context, q Query) (found []*journal.Run, next string, err error) {
	if q.Limit <= 0 || q.Limit > api.MaxRuns {
		q.Limit = api.MaxRuns
	}
	f := journal.Filter{Queue: q.Queue, Since: q.Since, Limit: q.Limit + 1} // one more tells whether there is a next page
	if f.States, err = parseStates(q.States); err != nil {
		return nil, "", err
	}
	if q.After != "" {
		if f.After, err = ParseID(q.After); err != nil {
			return nil, "", err
		}
	}
	if q.Trigger != "" {
		if f.Trigger, err = v.trigger(q.Trigger, q.Namespace); err != nil {
			return nil, "", err
		}
	}
	if found, err = v.Journal.List(ctx, f); err != nil {
		return nil, "", err
	}
	if len(found) > q.Limit {
		found = found[:q.Limit]
		next = uuid.UUID(found[q.Limit-1].ID).String()
	}
	return found, next, nil
}

// List returns the runs that a query selects, the latest first.
func (v *View) List(ctx context.Context, q Query) (api.Runs, error) {
	found, next, err := v.find(ctx, q)
	if err != nil {
		return api.Runs{}, err
	}
	page := api.Runs{Runs: []api.Run{}, Next: next}
	names := v.names()
	for _, r := range found {
		shown, err := v.run(ctx, names, r)
		if err == nil && r.State <= journal.Waiting {
			shown.Waits, err = v.waits(ctx, names, r, nil)
		}
		if err != nil {
			return api.Runs{}, err
		}
		page.Runs = append(page.Runs, shown)
	}
	return page, nil
}

// trigger returns the id of a node that is named by its id or name. It may be gone by now: then its id
// follows from the name, as that of each node without an id of its own does.
func (v *View) trigger(name, namespace string) (string, error) {
	if namespace == "" {
		namespace = v.Namespace
	}
	for _, ref := range v.Nodes() {
		if ref.ID == name || ref.Name == name && ref.Namespace == namespace {
			return ref.ID, nil
		}
	}
	if uuid.Validate(name) == nil {
		return name, nil
	}
	return spec.IDOf(namespace, name), nil
}

// Show returns a run with its records after a number. Payloads are there if they are asked for.
func (v *View) Show(ctx context.Context, id journal.ID, after int32, payloads bool) (api.RunDetail, error) {
	r, err := v.Journal.Get(ctx, id)
	if err != nil {
		return api.RunDetail{}, err
	}
	records, err := v.Journal.Records(ctx, id)
	if err != nil {
		return api.RunDetail{}, err
	}
	names := v.names()
	detail := api.RunDetail{Records: []api.RunRecord{}}
	if detail.Run, err = v.run(ctx, names, r); err != nil {
		return api.RunDetail{}, err
	}
	if detail.Run.Waits, err = v.waits(ctx, names, r, records); err != nil {
		return api.RunDetail{}, err
	}
	if payloads {
		if detail.Input, err = v.input(r); err != nil {
			return api.RunDetail{}, err
		}
		if detail.Answer, err = v.answer(r); err != nil {
			return api.RunDetail{}, err
		}
	}
	for i := range records {
		rec := &records[i]
		if rec.N <= after {
			continue
		}
		if len(detail.Records) == api.MaxRecords {
			detail.Next = int(detail.Records[api.MaxRecords-1].N)
			break
		}
		shown := api.RunRecord{N: int(rec.N), Type: rec.Type.String(), Outcome: durable.Outcome(rec), At: rec.At.UTC()}
		if shown.Outcome == "send" {
			shown.Port = new(int(rec.Port))
		}
		if shown.Node, err = v.node(ctx, names, r, rec.Node); err != nil {
			return api.RunDetail{}, err
		}
		if payloads && shown.Outcome != "none" && rec.Type != journal.Arrival {
			payload, err := durable.Payload(rec.Payload)
			if err != nil {
				return api.RunDetail{}, fmt.Errorf("record %d: %w", rec.N, err)
			}
			if rec.Type == journal.Hold { // the rest is the token
				payload = payload.At(0)
			}
			shown.Payload = new(v.Payload(&payload))
		}
		detail.Records = append(detail.Records, shown)
	}
	return detail, nil
}

// Input returns what a run has begun with, without the fields that are not stored.
func (v *View) Input(ctx context.Context, id journal.ID) (value.Value, error) {
	r, err := v.Journal.Get(ctx, id)
	if err != nil {
		return value.Value{}, err
	}
	return durable.Input(r.Input)
}

// One returns a run as a list has it.
func (v *View) One(ctx context.Context, id journal.ID) (api.Run, error) {
	r, err := v.Journal.Get(ctx, id)
	if err != nil {
		return api.Run{}, err
	}
	return v.run(ctx, v.names(), r)
}

// Queues lists the queues that have items which have not ended, or are paused.
func (v *View) Queues(ctx context.Context) ([]api.Queue, error) {
	states, err := v.Journal.Queues(ctx)
	queues := make([]api.Queue, 0, len(states))
	for _, s := range states {
		q := api.Queue{
			Node: api.MetricsOf{Namespace: v.Redact(s.Queue.Namespace), Name: v.Redact(s.Queue.Name)}, Figures: []api.Figure{},
			Items: &api.Items{Queued: s.Queued, Taken: s.Taken, Paused: s.Paused},
		}
		if !s.Oldest.IsZero() {
			q.Items.Oldest = new(s.Oldest.UTC())
		}
		queues = append(queues, q)
	}
	return queues, err
}

// waits returns what a run waits for. The nodes are those of its records; nil for no records.
func (v *View) waits(ctx context.Context, names *names, r *journal.Run, records []journal.Record) (shown []api.RunWait, err error) {
	if r.State.Ended() {
		return nil, nil
	}
	found, err := v.Journal.Waits(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	for _, w := range found {
		one := api.RunWait{Event: v.Redact(w.Event), Key: v.Redact(w.Key), Token: len(w.Token) > 0}
		if !w.Due.IsZero() {
			one.Due = new(w.Due.UTC())
		}
		id := ""
		if at := slices.IndexFunc(records, func(rec journal.Record) bool { return rec.Type == journal.Hold && rec.Pos == w.Pos }); at >= 0 {
			id = records[at].Node
		} else if _, ok := names.served[w.Event]; ok {
			id = w.Event
		}
		if id != "" {
			node, err := v.node(ctx, names, r, id)
			if err != nil {
				return nil, err
			}
			one.Node = &node
		}
		if w.Event == id { // a wait for a token only has the id of its node in place of an event
			one.Event = ""
		}
		shown = append(shown, one)
	}
	return shown, nil
}

func (v *View) input(r *journal.Run) (*api.Payload, error) {
	payload, err := durable.Input(r.Input)
	if err != nil {
		return nil, fmt.Errorf("what it began with: %w", err)
	}
	return new(v.Payload(&payload)), nil
}

// answer returns the answer of a run; nil while there is none.
func (v *View) answer(r *journal.Run) (*api.Payload, error) {
	if len(r.Answer) == 0 || r.State < journal.OK {
		return nil, nil
	}
	resp, err := durable.Answer(r.Answer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("its answer: %w", err)
	case resp.None:
		return new(v.Payload(nil)), nil
	}
	return new(v.Payload(&resp.Payload)), nil
}

func (v *View) run(ctx context.Context, names *names, r *journal.Run) (api.Run, error) {
	trigger, err := v.node(ctx, names, r, r.Trigger)
	if err != nil {
		return api.Run{}, err
	}
	shown := api.Run{
		ID: uuid.UUID(r.ID).String(), State: r.State.String(), Trigger: trigger, Revision: r.Revision, Keyed: len(r.Key) > 0,
		Resumed: r.Resumed, Began: r.Created.UTC(),
	}
	if int(r.Level) < len(levels) {
		shown.Level = levels[r.Level]
	}
	if r.Queue != "" {
		shown.Queue = &api.RunQueue{Name: v.Redact(r.Queue), Key: v.Redact(r.QueueKey), Priority: r.Priority, Failed: r.Attempts}
		if r.State == journal.Queued {
			shown.Queue.Due = new(r.Due.UTC())
			shown.Error = v.Redact(r.Error) // of the last attempt
		}
	}
	if r.State < journal.OK { // one that goes on still has why it was put aside
		return shown, nil
	}
	shown.Error = v.Redact(r.Error)
	if !r.Ended.IsZero() {
		shown.Ended = new(r.Ended.UTC())
	}
	return shown, nil
}

// names are nodes by their ids, for one request.
type names struct {
	served    map[string]node.Ref
	revisions map[string]map[string]node.Ref // of documents that are not served, by hash
}

func (v *View) names() *names {
	n := &names{served: make(map[string]node.Ref), revisions: make(map[string]map[string]node.Ref)}
	for _, ref := range v.Nodes() {
		n.served[ref.ID] = ref
	}
	return n
}

// node returns a node of a run: as it is served, or else as it is in the documents of the run. One that is in
// neither, such as a node within a template that is gone, has its id only.
func (v *View) node(ctx context.Context, n *names, r *journal.Run, id string) (api.ProcessNode, error) {
	ref, ok := n.served[id]
	if !ok {
		nodes, read := n.revisions[r.Revision]
		if !read {
			var err error
			if nodes, err = v.revision(ctx, r); err != nil {
				return api.ProcessNode{}, err
			}
			n.revisions[r.Revision] = nodes
		}
		if ref, ok = nodes[id]; !ok {
			ref = node.Ref{ID: id, Namespace: r.Namespace}
		}
	}
	return api.ProcessNode{ID: v.Redact(ref.ID), Kind: ref.Kind, Namespace: v.Redact(ref.Namespace), Name: v.Redact(ref.Name)}, nil
}

// revision returns the nodes in the documents of a run; none if the journal has the documents no more.
func (v *View) revision(ctx context.Context, r *journal.Run) (map[string]node.Ref, error) {
	rev, err := v.Journal.Revision(ctx, r.Revision)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	documents, err := durable.Documents(rev)
	if err != nil {
		return nil, err
	}
	nodes := make(map[string]node.Ref)
	for _, d := range documents {
		parsed, _ := spec.Parse(d, spec.ParseOptions{Namespace: r.Namespace}) // they were served: findings are not the reader's
		for _, n := range parsed {
			nodes[n.ID] = node.Ref{ID: n.ID, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name}
		}
	}
	return nodes, nil
}
