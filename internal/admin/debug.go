package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/debug"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// points are the names of where a process is held.
var points = map[string]observe.Points{"in": observe.PointIn, "out": observe.PointOut, "answer": observe.PointAnswer}

func pointName(point observe.Points) string {
	for name, p := range points {
		if p == point {
			return name
		}
	}
	return ""
}

// debug shows breakpoints and the processes that are held.
func (s *Server) debug(w http.ResponseWriter, _ *http.Request) {
	state := s.opts.Debug.State()
	body := api.Debug{Breakpoints: []api.Breakpoint{}, Held: []api.Held{}, Skipped: state.Skipped, Messages: []api.Message{}, Untold: state.Untold}
	for _, b := range state.Breakpoints {
		shown := api.Breakpoint{Node: b.Node, Point: pointName(b.Point), When: b.When, After: b.After, Once: b.Once, Log: b.Log, Hits: b.Hits, Faulty: s.opts.Redact(b.Faulty)}
		if b.Port != debug.AnyPort {
			shown.Port = &b.Port
		}
		body.Breakpoints = append(body.Breakpoints, shown)
	}
	for _, h := range state.Held {
		body.Held = append(body.Held, s.held(h))
	}
	for _, m := range state.Messages {
		body.Messages = append(body.Messages, api.Message{Number: m.Number, Time: m.Time, Node: s.processNode(m.Node), Process: m.Process, Text: s.opts.Redact(m.Text)})
	}
	s.json(w, body)
}

func (s *Server) held(h *debug.Held) api.Held {
	show := func(v value.Value) api.Payload { return s.payload(&v, v.Size()) }
	m := h.At
	shown := api.Held{
		ID: h.ID, Process: h.Of, Node: s.processNode(m.Node), Point: pointName(m.Point), Port: m.Port, Step: h.ByStep,
		Left: (debug.Longest - time.Since(h.Since)).Seconds(), Came: show(m.Payload), Callers: []api.ProcessNode{},
	}
	for _, out := range m.Packets {
		shown.Sends = append(shown.Sends, api.HeldPacket{Port: out.Port, Payload: show(out.Payload)})
	}
	if m.Point == observe.PointAnswer {
		answer := show(m.Response.Payload)
		if m.Response.None {
			answer = api.Payload{Kind: "none"}
		}
		shown.Answer = &answer
	}
	for _, ref := range m.Callers {
		shown.Callers = append(shown.Callers, s.processNode(ref))
	}
	return shown
}

// breakpoints replaces all breakpoints.
func (s *Server) breakpoints(w http.ResponseWriter, r *http.Request) {
	var body api.Breakpoints
	if !read(w, r, &body, `{"list": [{"node": "ID", "point": "in"}]}`) {
		return
	}
	vertices := s.opts.Outline().Vertices
	var all []debug.Breakpoint
	for i, b := range body.List {
		set := debug.Breakpoint{Node: b.Node, Point: points[b.Point], Port: debug.AnyPort, When: b.When, After: b.After, Once: b.Once, Log: b.Log}
		at := slices.IndexFunc(vertices, func(v node.Vertex) bool { return v.Ref.ID == b.Node })
		fail := func(what, hint string) {
			api.Fail(w, http.StatusBadRequest, fmt.Sprintf("list[%d]: %s", i, what), hint)
		}
		switch {
		case at < 0 && b.Node != "":
			fail(fmt.Sprintf("there is no node with the id %q", b.Node), "see "+api.Base+"nodes")
			return
		case at >= 0 && vertices[at].Def != nil && len(vertices[at].Def.In) == 0:
			fail(fmt.Sprintf("node %q starts processes: nothing comes to it", s.opts.Redact(vertices[at].Ref.String())), "take the node that it leads to")
			return
		case set.Point == 0:
			fail(fmt.Sprintf("point %q", b.Point), "want in, out or answer")
			return
		case b.Port != nil && set.Point != observe.PointOut:
			fail("a port is only for the point out", "")
			return
		case b.After < 0:
			fail("after: want 0 or more", "")
			return
		}
		if b.Port != nil {
			set.Port = *b.Port
		}
		all = append(all, set)
	}
	if err := s.opts.Debug.Set(all); err != nil {
		api.Fail(w, http.StatusBadRequest, err.Error(), "")
		return
	}
	s.debug(w, r)
}

// moves are the steps by their names.
var moves = map[string]observe.Step{"continue": observe.Continue, "into": observe.Into, "over": observe.Over, "out": observe.Out}

// move lets a process go on.
func (s *Server) move(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		api.Fail(w, http.StatusNotFound, "want the id of a process that is held", "see "+api.DebugPath)
		return
	}
	var body api.Move
	if !read(w, r, &body, `{"do": "continue"}`) {
		return
	}
	var payload *value.Value
	if body.Text != nil && body.Do != "fail" {
		parsed, err := value.ParseJSON([]byte(*body.Text))
		if err != nil {
			api.Fail(w, http.StatusBadRequest, "text: "+err.Error(), "the payload must be JSON; write a text in double quotes")
			return
		}
		payload = &parsed
	}
	step, steps := moves[body.Do]
	switch {
	case steps:
		err = s.opts.Debug.Move(id, step, payload)
	case body.Do == "answer" && payload != nil:
		err = s.opts.Debug.Instead(id, node.Answer(*payload))
	case body.Do == "fail" && body.Text != nil:
		err = s.opts.Debug.Instead(id, node.Fail(errors.New(*body.Text)))
	case body.Do == "drop":
		err = s.opts.Debug.Instead(id, node.None())
	case body.Do == "answer", body.Do == "fail":
		api.Fail(w, http.StatusBadRequest, fmt.Sprintf("%s needs a text", body.Do), "")
		return
	default:
		api.Fail(w, http.StatusBadRequest, fmt.Sprintf("do: %q", body.Do), "want continue, into, over, out, answer, fail or drop")
		return
	}
	switch {
	case errors.Is(err, debug.ErrGone):
		api.Fail(w, http.StatusConflict, err.Error(), "it went on by itself, or another client has let it go on")
		return
	case errors.Is(err, debug.ErrDurable):
		api.Fail(w, http.StatusConflict, err.Error(), "let it go on, and restart the run with another input")
		return
	case err != nil:
		api.Fail(w, http.StatusBadRequest, err.Error(), "")
		return
	}
	s.debug(w, r)
}
