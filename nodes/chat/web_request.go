package chat

import (
	"bytes"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed widget.js
var widget string

//go:embed page.html
var pageText string

var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageText)) })

// pagePolicy lets the page run the widget and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// A caller is who has sent a request.
type caller struct {
	method, rest string // rest is the path below the path of the node
	host         string
	origins      []string // the headers Origin
	origin       string   // of a page of another host, which asks for leave to read
	subject      string   // who has logged in; may be empty
	name         string
	body         value.Value
}

func (n *chatNode) Receive(p node.Process, pkt node.Packet) node.Result {
	c, err := n.caller(pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	method := http.MethodGet
	switch c.rest {
	case "", "/", "/widget.js", "/socket":
	case "/events", "/messages":
		method = http.MethodPost
	default:
		return node.Fail(public(http.StatusNotFound, "there is nothing at this path"))
	}
	if c.rest != "/widget.js" && c.rest != "/" && c.rest != "" {
		ok, foreign := n.origins.Admits(c.origins, c.host)
		if !ok {
			return node.Fail(public(http.StatusForbidden, "pages of this origin may not show the chat: see origins"))
		}
		if foreign {
			c.origin = c.origins[0]
		}
		if c.method == http.MethodOptions {
			return reply(http.StatusNoContent, value.Null(), c.cors("Access-Control-Allow-Methods", method, "Access-Control-Allow-Headers", "content-type", "Access-Control-Max-Age", "600")...)
		}
	}
	if c.method != method && (method != http.MethodGet || c.method != http.MethodHead || c.rest == "/socket") {
		return reply(http.StatusMethodNotAllowed, value.String(http.StatusText(http.StatusMethodNotAllowed)), "Allow", method)
	}
	switch c.rest {
	case "":
		return reply(http.StatusPermanentRedirect, value.Null(), "Location", n.path+"/")
	case "/":
		return n.servePage()
	case "/widget.js":
		return reply(http.StatusOK, value.String(widget), "Content-Type", "text/javascript; charset=utf-8",
			"Cache-Control", "no-cache", "X-Content-Type-Options", "nosniff", "Cross-Origin-Resource-Policy", "cross-origin")
	case "/messages":
		return n.receiveMessage(&c)
	case "/events":
		return n.serveEvents(p, &c)
	}
	if !handover.Leave(p.Context(), &socket{node: n, caller: c}) {
		return node.Fail(errNoRequest)
	}
	return node.None()
}

var errNoRequest = errors.New("there is no request to take over: another node has taken it, or it has been answered")

// caller reads a request.
func (n *chatNode) caller(v value.Value) (c caller, err error) {
	header := at(v, "header")
	if header.Kind() != value.KindMap {
		return c, errNotRequest
	}
	c.method, c.host, c.body = textOrNumber(v, "method"), textOrNumber(v, "host"), at(v, "body")
	for _, origin := range at(header, "Origin").Elems() {
		text, _ := origin.AsString()
		c.origins = append(c.origins, text)
	}
	rest, ok := strings.CutPrefix(textOrNumber(v, "path"), n.path)
	if !ok || rest != "" && rest[0] != '/' {
		return c, public(http.StatusNotFound, "there is nothing at this path")
	}
	c.rest = rest
	c.subject, c.name = textOrNumber(v, "auth", "subject"), textOrNumber(v, "auth", "claims", "name")
	return c, nil
}

// cors returns headers that let the page of an admitted origin read the answer.
func (c *caller) cors(headers ...string) []string {
	headers = append(headers, "Cache-Control", "no-store", "Vary", "Origin")
	if c.origin != "" {
		headers = append(headers, "Access-Control-Allow-Origin", c.origin)
	}
	return headers
}

// reply answers with names and values of headers.
func reply(status int, body value.Value, headers ...string) node.Result {
	fields := make([]value.Field, 0, len(headers)/2)
	for i := 0; i < len(headers); i += 2 {
		fields = append(fields, value.Field{Name: headers[i], Value: value.String(headers[i+1])})
	}
	answer := []value.Field{{Name: "status", Value: value.Int(int64(status))}, {Name: "header", Value: value.UniqueMap(fields)}}
	if !body.IsNull() {
		answer = append(answer, value.Field{Name: "body", Value: body})
	}
	return node.Answer(value.UniqueMap(answer))
}

func (n *chatNode) servePage() node.Result {
	var text bytes.Buffer
	if err := page().Execute(&text, map[string]string{"Title": n.title}); err != nil {
		return node.Fail(err)
	}
	return reply(http.StatusOK, value.String(text.String()), "Content-Type", "text/html; charset=utf-8", "Cache-Control", "no-cache",
		"Content-Security-Policy", pagePolicy, "X-Content-Type-Options", "nosniff", "Referrer-Policy", "no-referrer")
}

// A posted message is what a client sends.
type posted struct {
	conversation string // a token; empty for a new one
	id           string
	text         string
	data         value.Value // of a button
	wait         bool
}

// maxID is how long the id of a message may be.
const maxID = 64

// maxBody is how long the JSON of a message may be, whose text may be escaped.
func maxBody(maxText int) int { return 6*maxText + 4<<10 }

// read reads what a client sends. What it takes meanwhile is counted.
func (h *conversations) read(v value.Value, maxText int) (posted, error) {
	taken := int64(0)
	defer func() { h.held.Free(taken) }()
	return postedOf(v, maxText, func(bytes int) error {
		if !h.held.Take(int64(bytes)) {
			return busy(errMemory)
		}
		taken += int64(bytes)
		return nil
	})
}

// postedOf reads a body of JSON, which may have come as text: a page of another host may send
// that without asking before.
func postedOf(v value.Value, maxText int, reserve func(bytes int) error) (s posted, err error) {
	data, ok := v.AsBinary()
	if text, isText := v.AsString(); isText {
		data, ok = []byte(text), true
	}
	if ok {
		if len(data) > maxBody(maxText) {
			return s, public(http.StatusRequestEntityTooLarge, "the message is too long: %d bytes", len(data))
		}
		v, err = value.ParseJSONWith(data, value.JSONOptions{Reserve: reserve})
		if errors.Is(err, errMemory) {
			return s, err
		}
		if err != nil {
			return s, public(http.StatusBadRequest, "message: %v", err)
		}
	}
	if v.Kind() != value.KindMap {
		return s, public(http.StatusBadRequest, "want a map with text, got %s", v.Kind())
	}
	if s.conversation, err = fieldText(v, "conversation"); err == nil {
		if s.id, err = fieldText(v, "id"); err == nil {
			s.text, err = fieldText(v, "text")
		}
	}
	wait, _ := v.Get("wait")
	s.wait = wait.Truth()
	s.data, _ = v.Get("data")
	if b, isText := s.data.AsString(); isText && len(b) > maxText || !isText && !s.data.IsNull() {
		err = public(http.StatusUnprocessableEntity, "data: want text of at most %d bytes", maxText)
	}
	switch {
	case err != nil:
		return s, public(http.StatusUnprocessableEntity, "%v", err)
	case len(s.text) > maxText:
		return s, public(http.StatusRequestEntityTooLarge, "the message is too long: %d bytes, at most %d are read", len(s.text), maxText)
	case len(s.id) > maxID:
		return s, public(http.StatusUnprocessableEntity, "id: got %d bytes, want at most %d", len(s.id), maxID)
	}
	return s, nil
}
