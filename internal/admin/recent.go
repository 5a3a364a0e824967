package admin

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/recent"
	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// processes lists those that wait, the oldest id first, and those that have ended.
func (s *Server) processes(w http.ResponseWriter, r *http.Request) {
	only := r.FormValue("only")
	if only != "" && only != "failed" && only != "slow" {
		api.Fail(w, http.StatusBadRequest, "only: want failed or slow", "")
		return
	}
	ended, err := s.recent.Processes()
	if err != nil {
		api.Fail(w, http.StatusServiceUnavailable, err.Error(), "")
		return
	}
	all := s.opts.Waiting()
	slices.SortFunc(all, func(a, b uniflow.Waiting) int { return strings.Compare(a.ID, b.ID) })
	body := api.Processes{
		InFlight: s.opts.Status().InFlight, Waiting: len(all), List: []api.Process{},
		Since: ended.Since.UTC(), Unrecorded: ended.Unrecorded, Ended: []api.Ended{},
	}
	for _, p := range all[:min(len(all), api.MaxProcesses)] {
		shown := api.Process{ID: p.ID, Trigger: s.processNode(p.Trigger), At: []api.ProcessNode{}}
		for _, ref := range p.At {
			shown.At = append(shown.At, s.processNode(ref))
		}
		body.List = append(body.List, shown)
	}
	for _, t := range ended.List {
		if only == "failed" && !t.Failed || only == "slow" && t.Duration < recent.Slow {
			continue
		}
		if body.Ended = append(body.Ended, s.ended(t)); len(body.Ended) == api.MaxProcesses {
			break
		}
	}
	s.json(w, body)
}

// cancel ends a process that waits.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) {
	if !s.opts.Cancel(r.PathValue("id")) {
		api.Fail(w, http.StatusNotFound, fmt.Sprintf("no process with the id %q waits", r.PathValue("id")), "see "+api.Base+"processes: it may have ended, or run now")
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *Server) processNode(ref node.Ref) api.ProcessNode {
	return api.ProcessNode{ID: s.opts.Redact(ref.ID), Kind: ref.Kind, Namespace: s.opts.Redact(ref.Namespace), Name: s.opts.Redact(ref.Name)}
}

// ended shows a timeline, whose texts have no secrets.
func (s *Server) ended(t *observe.Timeline) api.Ended {
	return api.Ended{
		ID: t.Process, Trigger: s.processNode(t.Trigger), Name: t.Name, Start: t.Start.UTC(), Duration: t.Duration.Seconds(),
		Outcome: t.Outcome.String(), Failed: t.Failed, Error: t.Error, Spans: len(t.Spans),
	}
}

// process shows one with its packets; the payloads to those who may inspect.
func (s *Server) process(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	t, err := s.recent.Process(id)
	switch {
	case err != nil:
		api.Fail(w, http.StatusServiceUnavailable, err.Error(), "")
		return
	case t == nil:
		api.Fail(w, http.StatusNotFound, fmt.Sprintf("process %q is not recorded", id),
			"processes are recorded from the first request for "+api.Base+"processes on, and the oldest are forgotten")
		return
	}
	scope, _ := s.auth.scope(r)
	show := func(payload *value.Value) *api.Payload {
		if scope < api.Inspect {
			return nil
		}
		size := 0
		if payload != nil {
			size = payload.Size()
		}
		return new(s.payload(payload, size))
	}
	body := api.Timeline{
		Process: s.ended(t), Trace: hex.EncodeToString(t.Trace.ID[:]), Unrecorded: t.Unrecorded, Packets: make([]api.Span, len(t.Spans)),
	}
	if t.First != nil {
		body.First = show(t.First)
	}
	if t.Response != nil {
		body.Response = show(t.Response)
	}
	for i := range t.Spans {
		span := &t.Spans[i]
		body.Packets[i] = api.Span{
			Node: s.processNode(span.Node), In: span.Port, Parent: span.Parent, Out: span.Out,
			Start: span.Start.Seconds(), Queue: span.Queue.Seconds(), Run: span.Run.Seconds(), Wait: span.Wait.Seconds(), End: span.End.Seconds(),
			Error: span.Error, Payload: show(span.Payload), Replayed: span.Replayed,
		}
	}
	s.json(w, body)
}

// directions are by their [recent.Direction].
var directions = []string{"received", "sent", "answered"}

func (s *Server) packets(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if s.vertex(w, id) == nil {
		return
	}
	kept, skipped, err := s.recent.Packets(id)
	if err != nil {
		api.Fail(w, http.StatusServiceUnavailable, err.Error(), "")
		return
	}
	body := api.NodePackets{Skipped: skipped, List: []api.NodePacket{}}
	for _, p := range kept {
		shown := api.NodePacket{Time: p.Time.UTC(), Process: p.Process, Direction: directions[p.Direction], Port: p.Port, Replayed: p.Replayed}
		if p.None {
			shown.Payload = api.Payload{Kind: "none"}
		} else {
			shown.Payload = s.payload(p.Payload, p.Size)
		}
		body.List = append(body.List, shown)
	}
	s.json(w, body)
}

// safe is a payload without secrets: those that are known, and what is in fields that hold credentials by their
// names.
func (s *Server) safe(payload value.Value) value.Value {
	return redact.Fields(s.opts.RedactValue(payload))
}

// payload shows a payload, nil for one that was not kept, without secrets.
func (s *Server) payload(payload *value.Value, size int) api.Payload {
	if payload == nil {
		return api.Payload{Size: size, Cut: true}
	}
	shown := api.PayloadOf(s.safe(*payload), size)
	shown.Kind = payload.Kind().String()
	return shown
}
