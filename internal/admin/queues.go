package admin

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/node"
)

// queues lists the nodes that report something of themselves, or are not ready.
func (s *Server) queues(w http.ResponseWriter, _ *http.Request) {
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
	queues := []api.Queue{}
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
