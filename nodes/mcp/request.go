package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A request is what a listener has received.
type request struct {
	payload value.Value // without its body
	body    []byte
	size    int64  // of the body, decoded
	method  string // of the protocol
	subject string // who has signed in; empty if that is not asked for
}

// requestOf returns the request of a payload, or why it is refused.
func (s *server) requestOf(v value.Value) (*request, error) {
	header, ok := v.Get("header")
	if _, method := v.Get("method"); !ok || !method {
		return nil, errors.New("want the request of a listener")
	}
	refuse := func(format string, args ...any) error {
		return &node.Error{Err: fmt.Errorf(format, args...), Status: http.StatusForbidden, Code: "origin", Public: true}
	}
	host, _ := v.Get("host")
	name, _ := host.AsString()
	if !s.hosts.IsZero() && !s.hosts.Match(hostname(name)) {
		return nil, refuse("this server does not have the host of the request")
	}
	if origins, _ := header.Get("Origin"); !s.admits(first(origins), name) {
		return nil, refuse("pages of this origin may not call: see origins")
	}
	r := &request{payload: v.Without("body").Without("raw")}
	if claims, ok := v.Get("auth"); ok {
		subject, _ := claims.Get("subject")
		r.subject, _ = subject.AsString()
	}
	body, _ := v.Get("body")
	if body.IsNull() {
		return r, nil
	}
	if err := tooLarge(body); err != nil {
		return nil, &node.Error{Err: err, Status: http.StatusRequestEntityTooLarge, Code: "too_large", Public: true}
	}
	if method, ok := body.Get("method"); ok {
		r.method, _ = method.AsString()
	}
	var err error
	r.size = int64(body.Size())
	if r.body, err = body.MarshalJSON(); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return r, nil
}

const (
	// maxBatch is how many messages a request may have. Only version 2025-03-26 of the protocol
	// has batches; each message of one costs far more than its bytes.
	maxBatch = 100

	// maxIntroduction is how much memory a message may take with which a client introduces
	// itself, as a session keeps it.
	maxIntroduction = 16 << 10
)

// tooLarge returns what is too large in the body of a request.
func tooLarge(body value.Value) error {
	messages := []value.Value{body}
	if body.Kind() == value.KindList {
		if body.Len() > maxBatch {
			return fmt.Errorf("a batch has more than %d messages", maxBatch)
		}
		messages = messages[:0]
		for _, m := range body.Elems() {
			messages = append(messages, m)
		}
	}
	for _, m := range messages {
		method, _ := m.Get("method")
		if name, _ := method.AsString(); name == "initialize" && m.Size() > maxIntroduction {
			return fmt.Errorf("a message initialize takes more than %d bytes", maxIntroduction)
		}
	}
	return nil
}

// first returns a text, or the first one of a list. If there are several, it is one that
// matches nothing.
func first(v value.Value) string {
	if v.Kind() == value.KindList {
		if v.Len() > 1 {
			return "several"
		}
		for _, elem := range v.Elems() {
			v = elem
		}
	}
	text, _ := v.AsString()
	return text
}

// admits reports whether a page may call a host. Clients that are not browsers have no
// origin.
func (s *server) admits(origin, host string) bool {
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return s.origins.Match("") // "null", of pages without an origin
	}
	return strings.EqualFold(u.Host, host) || s.origins.Match(u.Host) || s.origins.Match(u.Hostname())
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// callHeader is the header that leads from a message to the request that it came with.
const callHeader = "X-Uniflow-Call"

// taken is the handler of a request that a server has taken over.
type taken struct {
	endpoint *endpoint
	request  *request
}

// ServeHTTP implements [http.Handler]. It is called after the process of the request has
// ended, maybe by a later generation.
func (t *taken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The text, its copy that the library makes, and the arguments as they are decoded.
	size, held := 2*int64(len(t.request.body))+t.request.size, t.endpoint.held
	if !held.Take(size) {
		noRoom(w, "there is no memory for another request")
		return
	}
	defer held.Free(size)
	clone := r.Clone(context.WithValue(r.Context(), subjectKey{}, t.request.subject))
	clone.Body = io.NopCloser(bytes.NewReader(t.request.body))
	clone.ContentLength = int64(len(t.request.body))
	id, forget := t.endpoint.remember(&origin{r.Context(), t.request})
	defer forget()
	clone.Header.Set(callHeader, id)
	clone.Header.Set("Authorization", "Bearer -") // for signedIn; node auth has read the real one
	t.endpoint.ServeHTTP(w, clone, t.request.method, t.request.size)
}

type subjectKey struct{}

// signedIn passes the subject of a request to the library, so that sessions are not shared.
func signedIn(h http.Handler) http.Handler {
	return auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		subject, _ := ctx.Value(subjectKey{}).(string)
		return &auth.TokenInfo{UserID: subject}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(h)
}
