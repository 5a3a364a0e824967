package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
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
		case keyMethod:
			c.method, isCall = field, true
		case keyPath:
			c.path, isCall = field, true
		case keyQuery:
			c.query, isCall = field, true
		case keyHeader:
			c.header, isCall = field, true
		case keyBody:
			c.body, isCall = field, true
		case keyStatus:
			if status, ok := field.AsInt(); !ok || status < 100 || status > 599 {
				return call{body: payload}
			}
		case keyScheme, keyHost, keyProtocol, keyParams:
		default:
			if !requestOnly(name) {
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
func (n *client) newRequest(ctx context.Context, payload value.Value) (*http.Request, error) {
	c := openCall(payload)
	req := n.base.WithContext(ctx)
	view, rawPath := sentHeader(c.header)
	if err := setTarget(req, n.base.URL, c, rawPath); err != nil {
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
	if err := setMethod(req, c.method, form != noBody); err != nil {
		return nil, err
	}
	if trace, ok := observe.TraceOf(ctx); ok && !trace.IsZero() {
		h, _ = ownHeader(h, shared)
		h["Traceparent"] = []string{trace.String()}
		delete(h, "Tracestate")
		if trace.State != "" {
			h["Tracestate"] = []string{trace.State}
		}
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

// sentHeader returns the header behind a field that a listener or a client has made,
// and the path of that request as its client has encoded it.
func sentHeader(header value.Value) (h http.Header, path rawPath) {
	source, _ := value.FieldSourceOf(header)
	switch view := source.(type) {
	case *headerView:
		return view.header, rawPath{view.path, view.rawPath}
	case *answerHeader:
		return view.header, rawPath{}
	}
	return nil, rawPath{}
}

// A rawPath is a path and its encoding, which is empty if that is the default one.
type rawPath struct{ path, raw string }

// header returns the header of a request, without the type of its body unless the
// payload or the node has one. shared says that it must not be changed.
func (n *client) header(header value.Value, view http.Header) (h http.Header, shared bool, err error) {
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
		if _, err := setHeaders(h, header, isOwnHeader); err != nil {
			return nil, false, err
		}
	}
	for name, list := range plain {
		if _, ok := h[name]; !ok {
			h[name] = list
		}
	}
	if n.auth != "" {
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
	return isServerHeader(name)
}

// isRequestMethod reports whether a method can be sent. CONNECT is for proxies.
func isRequestMethod(method string) bool { return validToken(method) && method != http.MethodConnect }

func setMethod(req *http.Request, method value.Value, hasBody bool) error {
	if !method.IsNull() {
		s, ok := method.AsString()
		if !ok {
			return fmt.Errorf("method: want a string, got %s", method.Kind())
		}
		if req.Method = strings.ToUpper(s); !isRequestMethod(req.Method) {
			return fmt.Errorf("%q is not a method that can be sent", node.Clip(s, maxQuote))
		}
	}
	switch {
	case req.Method != "":
	case hasBody:
		req.Method = http.MethodPost
	default:
		req.Method = http.MethodGet
	}
	return nil
}

// setTarget sets the URL of a request: base, continued by the path and the query of a
// call.
func setTarget(req *http.Request, base *url.URL, c call, sent rawPath) error {
	path, isText := c.path.AsString()
	if !c.path.IsNull() && !isText {
		return fmt.Errorf("path: want a string, got %s", c.path.Kind())
	}
	query, err := appendQuery(base.RawQuery, c.query)
	if err != nil {
		return err
	}
	if path == "" && len(query) == len(base.RawQuery) {
		return nil // req shares the URL of the node
	}
	u := *base
	u.RawQuery = query
	if path != "" {
		raw := ""
		if sent.path == path {
			raw = sent.raw
		}
		if err := joinPath(&u, path, raw); err != nil {
			return err
		}
	}
	req.URL = &u
	return nil
}

var errDotSegment = errors.New("path has a segment of dots only, such as .. : want a path below that of the url")

// joinPath continues the path of a URL. raw is how path was encoded, or empty.
func joinPath(u *url.URL, path, raw string) error {
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		segment, _, _ = strings.Cut(segment, ";") // what servers of Java ignore
		if segment == "." || segment == ".." {
			return errDotSegment
		}
	}
	before, slash := strings.CutSuffix(u.EscapedPath(), "/")
	if slash {
		u.Path = u.Path[:len(u.Path)-1]
	}
	if raw != "" || u.RawPath != "" {
		if raw == "" {
			raw = (&url.URL{Path: path}).EscapedPath()
		}
		u.RawPath = before + "/" + strings.TrimLeft(raw, "/") // net/url ignores it if it does not fit Path
	}
	u.Path += "/" + strings.TrimLeft(path, "/")
	return nil
}

// appendQuery continues a query.
func appendQuery(query string, more value.Value) (string, error) {
	if source, ok := value.FieldSourceOf(more); ok {
		if view, ok := source.(*queryView); ok && !strings.ContainsAny(view.raw, ";#") {
			if query != "" && view.raw != "" {
				query += "&"
			}
			return query + view.raw, nil
		}
	}
	if more.IsNull() {
		return query, nil
	}
	if more.Kind() != value.KindMap {
		return "", fmt.Errorf("query: want a map, got %s", more.Kind())
	}
	if more.Len() == 0 {
		return query, nil
	}
	b := []byte(query)
	add := func(name string, v value.Value) error {
		if v.IsNull() {
			return nil
		}
		s, ok := text(v)
		if !ok {
			return fmt.Errorf("query %q: want a string or a list of strings, got %s", node.Clip(name, maxQuote), v.Kind())
		}
		if len(b) > 0 {
			b = append(b, '&')
		}
		b = append(append(append(b, url.QueryEscape(name)...), '='), url.QueryEscape(s)...)
		return nil
	}
	for name, field := range more.Fields() {
		if field.Kind() != value.KindList {
			if err := add(name, field); err != nil {
				return "", err
			}
			continue
		}
		for _, elem := range field.Elems() {
			if err := add(name, elem); err != nil {
				return "", err
			}
		}
	}
	return string(b), nil
}

// A bodyForm is what a body without a Content-Type is sent as.
type bodyForm uint8

const (
	noBody bodyForm = iota
	textBody
	octetsBody
	jsonBody
	bodyForms
)

// encodeCall returns the bytes of a body, and the type to send instead of the given one
// if that no longer fits.
func encodeCall(contentType string, v value.Value) (data []byte, form bodyForm, changed string, err error) {
	m := parseMedia(contentType)
	if m.kind == mediaMultipart && v.Kind() == value.KindMap {
		data, changed, err = encodeMultipart(v)
		return data, jsonBody, changed, err
	}
	switch v.Kind() {
	case value.KindString:
		form = textBody
	case value.KindBinary:
		form = octetsBody
	default:
		form = jsonBody
	}
	data, _, plain, err := plainBody(m, v)
	if !plain && err == nil {
		if data, err = v.AppendJSON(make([]byte, 0, min(v.Size(), firstRead))); err != nil {
			err = fmt.Errorf("body: %w", err)
		}
	}
	if m.charset != "" && (!plain || m.kind == mediaForm && form == jsonBody) { // it is UTF-8
		if name, params, err := mime.ParseMediaType(contentType); err == nil {
			delete(params, "charset")
			changed = mime.FormatMediaType(name, params)
		}
	}
	return data, form, changed, err
}

// encodeMultipart writes a map of values and files, as the decoder makes it.
func encodeMultipart(v value.Value) (data []byte, contentType string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, field := range v.Fields() {
		var add func(*multipart.Writer, string, value.Value) error
		switch name {
		case "values":
			add = addPart
		case "files":
			add = addFile
		default:
			return nil, "", fmt.Errorf("multipart body has the key %q: want values and files", node.Clip(name, maxQuote))
		}
		if field.Kind() != value.KindMap && !field.IsNull() {
			return nil, "", fmt.Errorf("multipart body: %s: want a map, got %s", name, field.Kind())
		}
		for name, v := range field.Fields() {
			if v.Kind() != value.KindList {
				v = value.List(v)
			}
			for _, elem := range v.Elems() {
				if err := add(w, name, elem); err != nil {
					return nil, "", fmt.Errorf("multipart body: %q: %w", node.Clip(name, maxQuote), err)
				}
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), w.FormDataContentType(), nil
}

func addPart(w *multipart.Writer, name string, v value.Value) error {
	if v.IsNull() {
		return nil
	}
	if s, ok := text(v); ok {
		v = value.String(s)
	}
	h := make(textproto.MIMEHeader)
	h.Set("Content-Disposition", strings.TrimSuffix(multipart.FileContentDisposition(name, ""), `; filename=""`))
	return writePart(w, h, v)
}

func addFile(w *multipart.Writer, name string, v value.Value) error {
	if v.Kind() != value.KindMap {
		return fmt.Errorf("want a map of filename and data, got %s", v.Kind())
	}
	field, _ := v.Get("filename")
	filename, _ := field.AsString()
	header, _ := v.Get(keyHeader)
	data, _ := v.Get("data")
	sent := make(http.Header)
	if _, err := setHeaders(sent, header, func(name string) bool { return name == "Content-Disposition" || isServerHeader(name) }); err != nil {
		return err
	}
	h := textproto.MIMEHeader(sent)
	h.Set("Content-Disposition", multipart.FileContentDisposition(name, filename))
	return writePart(w, h, data)
}

// writePart writes a part in the form of its Content-Type, and sets that for bytes and
// for JSON if there is none.
func writePart(w *multipart.Writer, h textproto.MIMEHeader, v value.Value) error {
	data, form, _, err := encodeCall(h.Get("Content-Type"), v)
	if err != nil {
		return err
	}
	if h.Get("Content-Type") == "" && form != textBody {
		h.Set("Content-Type", map[bodyForm]string{octetsBody: typeOctets, jsonBody: typeJSON}[form])
	}
	part, err := w.CreatePart(h)
	if err != nil {
		return err
	}
	_, err = part.Write(data)
	return err
}

// newSentBody returns a reader that net/http knows: of others it sends the header in a
// packet of its own, which made a call of 150 bytes take 15% more CPU.
func newSentBody(data []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(data)) }

// setBody sets the body of a request. It can be sent again, after a redirect or on
// another connection.
func setBody(req *http.Request, data []byte) {
	if len(data) == 0 {
		req.Body = http.NoBody
		return
	}
	req.Body, req.ContentLength = newSentBody(data), int64(len(data))
	req.GetBody = func() (io.ReadCloser, error) { return newSentBody(data), nil }
}
