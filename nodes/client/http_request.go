package client

import (
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A call is what a payload says about a request. Null is what it does not say.
type call struct {
	method, path, query, header, body value.Value
}

// openCall returns the call that a payload is. A map that has other keys than a request
// or an answer, or none of those that matter to a call, is a body.
func openCall(payload value.Value) (c call) {
	if payload.Kind() != value.KindMap {
		return call{body: payload}
	}
	isCall, ofRequest := false, false
	for name, field := range payload.Fields() {
		switch name {
		case envelope.KeyMethod:
			c.method, isCall = field, true
		case envelope.KeyPath:
			c.path, isCall = field, true
		case envelope.KeyQuery:
			c.query, isCall = field, true
		case envelope.KeyHeader:
			c.header, isCall = field, true
		case envelope.KeyBody:
			c.body, isCall = field, true
		case envelope.KeyStatus:
			if status, ok := field.AsInt(); !ok || status < 100 || status > 599 {
				return call{body: payload}
			}
		case envelope.KeyScheme, envelope.KeyHost, envelope.KeyProtocol, envelope.KeyParams:
		default:
			if !envelope.RequestOnly(name) {
				return call{body: payload}
			}
			ofRequest = true
		}
	}
	if !isCall || ofRequest && c.method.IsNull() {
		return call{body: payload}
	}
	return c
}

// newRequest makes the request of a payload. The header may be shared by requests, so
// it must not be changed.
func (n *httpNode) newRequest(ctx context.Context, payload value.Value) (*http.Request, error) {
	c := openCall(payload)
	req := n.base.WithContext(ctx)
	view, path, rawPath := content.Sent(c.header)
	if err := setTarget(req, n.base.URL, c, path, rawPath); err != nil {
		return nil, err
	}
	h, shared, err := n.header(c.header, view)
	if err != nil {
		return nil, err
	}
	form, data := noBody, []byte(nil)
	if !c.body.IsNull() {
		contentType := ""
		if list := h["Content-Type"]; len(list) > 0 {
			contentType = list[0]
		}
		var changed string
		if data, form, changed, err = encodeCall(contentType, c.body); err != nil {
			return nil, err
		}
		switch {
		case shared:
			h = n.headers[form]
		case contentType == "":
			h["Content-Type"] = n.headers[form]["Content-Type"]
		}
		if changed != "" {
			h, shared = ownHeader(h, shared)
			h["Content-Type"] = []string{changed}
		}
		if form != octetsBody && len(h["Content-Encoding"]) > 0 {
			h, shared = ownHeader(h, shared)
			delete(h, "Content-Encoding") // of the body that was decoded
		}
		setBody(req, data)
	}
	if req.Method, err = n.method(c); err != nil {
		return nil, err
	}
	if trace, ok := observe.TraceOf(ctx); ok && !trace.IsZero() {
		h, _ = ownHeader(h, shared)
		httpclient.SetTrace(h, trace)
	}
	req.Header = h
	return req, nil
}

func ownHeader(h http.Header, shared bool) (own http.Header, nowShared bool) {
	if shared {
		return h.Clone(), false
	}
	return h, false
}

// header returns the header of a request, without the type of its body unless the
// payload or the node has one. shared says that it must not be changed.
func (n *httpNode) header(header value.Value, view http.Header) (h http.Header, shared bool, err error) {
	plain := n.headers[noBody]
	switch {
	case view != nil:
		h = make(http.Header, len(view)+len(plain))
		for name, list := range view {
			if !isOwnHeader(name) && name != "Content-Encoding" {
				h[name] = slices.Clip(list)
			}
		}
		dropHopByHop(h, view["Connection"])
	case header.IsNull() || header.Kind() == value.KindMap && header.Len() == 0:
		return plain, true, nil
	default:
		h = make(http.Header, header.Len()+len(plain))
		if _, err := envelope.SetHeaders(h, header, isOwnHeader); err != nil {
			return nil, false, err
		}
	}
	for name, list := range plain {
		if _, ok := h[name]; !ok {
			h[name] = list
		}
	}
	if n.service.HasAuth {
		h["Authorization"] = plain["Authorization"]
	}
	return h, false, nil
}

// dropHopByHop removes the headers that the header Connection names (RFC 9110, section
// 7.6.1).
func dropHopByHop(h http.Header, connection []string) {
	for _, list := range connection {
		for name := range strings.SplitSeq(list, ",") {
			delete(h, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
}

// isOwnHeader reports whether a payload cannot set a header, because it is about the
// connection, the encoded body or the host.
func isOwnHeader(name string) bool {
	switch name {
	case "Accept-Encoding", "Expect", "Host", "Http2-Settings", "Proxy-Authorization", "Proxy-Authenticate":
		return true
	}
	return envelope.ServerHeader(name)
}

// isRequestMethod reports whether a method can be sent. CONNECT is for proxies.
func isRequestMethod(method string) bool {
	return envelope.ValidToken(method) && method != http.MethodConnect
}

// method returns the method of the request of a call.
func (n *httpNode) method(c call) (string, error) {
	switch {
	case !c.method.IsNull():
		s, ok := c.method.AsString()
		if !ok {
			return "", fmt.Errorf("method: want a string, got %s", c.method.Kind())
		}
		if method := strings.ToUpper(s); isRequestMethod(method) {
			return method, nil
		}
		return "", fmt.Errorf("%q is not a method that can be sent", node.Clip(s, envelope.MaxQuote))
	case n.base.Method != "":
		return n.base.Method, nil
	case c.body.IsNull():
		return http.MethodGet, nil
	}
	return http.MethodPost, nil
}

// Reads implements [node.Reader]: HTTP says that GET and HEAD change nothing.
func (n *httpNode) Reads(pkt node.Packet) bool {
	method, err := n.method(openCall(pkt.Payload))
	return err == nil && (method == http.MethodGet || method == http.MethodHead)
}
