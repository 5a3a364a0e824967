package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// node shows a node with its config.
func (s *Server) node(w http.ResponseWriter, r *http.Request) {
	v := s.vertex(w, r.PathValue("id"))
	if v == nil {
		return
	}
	named := s.processNode(v.Ref)
	body := api.NodeDetail{ID: named.ID, Kind: named.Kind, Namespace: named.Namespace, Name: named.Name, Settings: []api.Setting{}}
	if v.Def != nil {
		body.In = len(v.Def.In)
	}
	for _, set := range v.Config.Settings() {
		shown := api.Setting{Path: set.Path, Given: set.Given, Hidden: set.Hidden, Text: redact.Hidden}
		if !set.Hidden {
			shown.Text = s.payload(&set.Value, 0).Text
		}
		body.Settings = append(body.Settings, shown)
	}
	s.json(w, body)
}

// vertex returns the node that is served with an id, or answers that there is none.
func (s *Server) vertex(w http.ResponseWriter, id string) *node.Vertex {
	vertices := s.opts.Outline().Vertices
	at := slices.IndexFunc(vertices, func(v node.Vertex) bool { return v.Ref.ID == id })
	if at < 0 {
		api.Fail(w, http.StatusNotFound, fmt.Sprintf("there is no node with the id %q", id), "see "+api.Base+"nodes")
		return nil
	}
	return &vertices[at]
}

// read reads a body as JSON, or answers what is wrong with it.
func read(w http.ResponseWriter, r *http.Request, body any, want string) (ok bool) {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, api.MaxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(body)
	if err == nil {
		return true
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		api.Fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", api.MaxBody), "")
	} else {
		api.Fail(w, http.StatusBadRequest, err.Error(), "want "+want)
	}
	return false
}

// maxSending is the longest time that the answer to a packet is waited for.
const maxSending = 30 * time.Second

// sendRate is how many packets clients may send in a second: a mistake in a script must not be a load.
const sendRate = 10

// send sends a packet to a node, as a trigger would.
func (s *Server) send(w http.ResponseWriter, r *http.Request) {
	var body api.Sending
	if !read(w, r, &body, `{"port": 0, "text": "JSON"}`) {
		return
	}
	payload, ok := parsed(w, "text", body.Text)
	if !ok {
		return
	}
	v := s.vertex(w, r.PathValue("id"))
	if v == nil {
		return
	}
	if !s.sends.Allow() {
		w.Header().Set("Retry-After", "1")
		api.Fail(w, http.StatusTooManyRequests, fmt.Sprintf("at most %d packets are sent in a second", sendRate), "send them to the program itself")
		return
	}
	if v.Def == nil || len(v.Def.In) == 0 {
		api.Fail(w, http.StatusBadRequest, fmt.Sprintf("node %q starts processes itself: nothing can be sent to it", s.opts.Redact(v.Ref.String())), "send to the node that it leads to")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxSending)
	defer cancel()
	answer, ok, err := s.opts.Send(ctx, v.Ref.ID, body.Port, payload)
	var sent api.Sent
	switch {
	case err != nil:
		sent = api.Sent{Failed: true, Payload: s.payload(new(value.Error(err)), 0)}
	case !ok:
		sent.Payload = s.payloadOf(nil)
	default:
		sent.Payload = s.payloadOf(&answer)
	}
	s.json(w, sent)
}
