package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/runs"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
)

// queues lists the nodes that report something of themselves, or are not ready, and the queues of durable runs.
func (s *Server) queues(w http.ResponseWriter, r *http.Request) {
	byID := make(map[string]*api.Queue)
	of := func(ref node.Ref) *api.Queue {
		q := byID[ref.ID]
		if q == nil {
			q = &api.Queue{
				ID: s.opts.Redact(ref.ID), Figures: []api.Figure{},
				Node: api.MetricsOf{Kind: ref.Kind, Namespace: s.opts.Redact(ref.Namespace), Name: s.opts.Redact(ref.Name)},
			}
			byID[ref.ID] = q
		}
		return q
	}
	for _, f := range s.opts.Metrics().Figures {
		q := of(f.Node)
		q.Figures = append(q.Figures, s.figure(f.Metric))
	}
	for _, reason := range s.opts.Ready() {
		var waits *uniflow.ReadyError
		if errors.As(reason, &waits) {
			of(waits.Node).Waiting = s.opts.Redact(waits.Err.Error())
		}
	}
	items, err := s.items(r.Context())
	if err != nil {
		s.noRuns(w, err)
		return
	}
	queues := []api.Queue{}
	for _, q := range byID {
		at := slices.IndexFunc(items, func(i api.Queue) bool {
			return q.Node.Kind != "" && i.Node.Namespace == q.Node.Namespace && i.Node.Name == q.Node.Name
		})
		switch {
		case !slices.ContainsFunc(q.Figures, func(f api.Figure) bool { return f.Name == depthFigure }):
		case at < 0:
			q.Items = &api.Items{}
		default:
			q.Items = items[at].Items
			items = slices.Delete(items, at, at+1)
		}
	}
	queues = append(queues, items...) // of those that are not served
	for id, files := range s.deadFiles() {
		if q := byID[id]; q != nil {
			q.Dead = slices.ContainsFunc(files, hasLetters)
		}
	}
	for _, q := range byID {
		slices.SortFunc(q.Figures, func(a, b api.Figure) int {
			return cmp.Or(cmp.Compare(slices.Index(figureTypes, a.Type), slices.Index(figureTypes, b.Type)), strings.Compare(a.Name, b.Name), strings.Compare(sorted(a.Labels), sorted(b.Labels))) // what is now comes first
		})
		queues = append(queues, *q)
	}
	slices.SortFunc(queues, func(a, b api.Queue) int {
		return cmp.Or(strings.Compare(a.Node.Namespace, b.Node.Namespace), strings.Compare(a.Node.Name, b.Node.Name), strings.Compare(a.ID, b.ID))
	})
	s.json(w, queues)
}

// depthFigure is a figure that each queue of durable runs has.
const depthFigure = "queue_depth"

// items lists the queues of durable runs that have items; none without a journal.
func (s *Server) items(ctx context.Context) ([]api.Queue, error) {
	if s.opts.Runs == nil {
		return nil, nil
	}
	return s.viewOf().Queues(ctx)
}

// namespaceOf returns the namespace that a request names, or that of the program.
func (s *Server) namespaceOf(r *http.Request) string {
	return cmp.Or(r.FormValue("namespace"), s.opts.Namespace, "default")
}

// pauseQueue pauses a queue of durable runs, or lets its items begin again.
func (s *Server) pauseQueue(paused bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.view(w) == nil {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxSending)
		defer cancel()
		if err := s.opts.PauseQueue(ctx, s.namespaceOf(r), r.PathValue("id"), paused); err != nil {
			s.noRuns(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// enqueue puts an item into a queue of durable runs, and answers with its run.
func (s *Server) enqueue(w http.ResponseWriter, r *http.Request) {
	view := s.view(w)
	if view == nil {
		return
	}
	var body api.QueueItem
	if !read(w, r, &body, `{"payload": JSON}`) {
		return
	}
	it := node.Item{Namespace: s.namespaceOf(r), Queue: r.PathValue("id"), Priority: body.Priority, ID: body.ID}
	if len(body.Payload) > 0 {
		var ok bool
		if it.Payload, ok = parsed(w, "payload", string(body.Payload)); !ok {
			return
		}
	}
	if body.Priority < -maxPriority || body.Priority > maxPriority {
		api.Fail(w, http.StatusBadRequest, fmt.Sprintf("priority: want -%d to %d, got %d", maxPriority, maxPriority, body.Priority), "")
		return
	}
	if body.After != "" {
		after, err := time.ParseDuration(body.After)
		if err != nil || after < 0 {
			api.Fail(w, http.StatusBadRequest, "after: want a duration such as 1h", "")
			return
		}
		it.At = time.Now().Add(after)
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxSending)
	defer cancel()
	receipt, err := s.opts.Enqueue(ctx, it)
	var run api.Run
	if err == nil {
		var id journal.ID
		if id, err = runs.ParseID(receipt.Run); err == nil {
			run, err = view.One(ctx, id)
		}
	}
	if err != nil {
		s.noRuns(w, err)
		return
	}
	s.json(w, run)
}

// maxPriority is the greatest priority of an item, and its negative the least.
const maxPriority = 100

// figureTypes are by their [node.MetricType].
var figureTypes = []string{"gauge", "counter", "histogram"}

func (s *Server) figure(m node.Metric) api.Figure {
	f := api.Figure{Name: m.Name, Help: m.Help, Type: figureTypes[m.Type], Value: m.Value}
	if m.Type == node.MetricHistogram {
		for _, n := range m.Counts {
			f.Value += float64(n)
		}
		if f.Value > 0 {
			f.Mean = m.Sum / f.Value
		}
	}
	if len(m.Labels) > 0 {
		f.Labels = make(map[string]string, len(m.Labels))
	}
	for _, l := range m.Labels {
		f.Labels[l.Name] = s.opts.Redact(l.Value)
	}
	return f
}

// sorted is what labels are ordered by.
func sorted(labels map[string]string) string {
	var all []string
	for name, value := range labels {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
