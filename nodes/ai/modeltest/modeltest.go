// Package modeltest is a server that speaks the protocol of language models (chat
// completions, as OpenAI made them), and says what a test prepares. It refuses what
// the real ones refuse, and misbehaves on demand.
//
// [New] starts a server for a test, and [Handler] is the same without one. A [Model] makes a
// [Turn] of each [Request]; [Script] is a Model of prepared turns.
package modeltest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// A Model answers requests. Several goroutines may call it concurrently.
type Model func(Request) Turn

// A Request is one call of the server, after it was checked.
type Request struct {
	Number    int // of the requests that were checked, from 0 on
	Model     string
	Messages  []Message
	Tools     []string // their names
	Stream    bool
	MaxTokens int         // 0 if the request has none
	Format    value.Value // response_format; null if the request has none
	Header    http.Header
	Body      value.Value // all of it
}

// Last returns the content of the last message.
func (r Request) Last() string { return r.Messages[len(r.Messages)-1].Content }

// A Message is one of the conversation.
type Message struct {
	Role    string
	Content string
	Calls   []Call // of an assistant
	CallID  string // of a tool
}

// A Call is a tool that the model calls.
type Call struct {
	ID        string // "" is one of the server's own
	Name      string
	Arguments string // JSON, as a rule
}

// A Turn is what the server does with a request. The zero Turn says nothing, and ends well.
type Turn struct {
	Text   string   // sent in tokens of about four bytes, whole characters
	Tokens []string // sent as they are, after Text
	Calls  []Call   // after all text
	Finish string   // "" is what the turn has come to: stop or tool_calls

	Every time.Duration   // between two tokens
	Next  <-chan struct{} // each token waits for a receive, unless it is nil

	// What goes wrong.
	Status     int           // other than 200: the error of that status
	RetryAfter time.Duration // of an error, in whole seconds
	Code       string        // of an error; "" is the usual one
	Message    string        // of an error; "" is the usual one
	Silent     bool          // no header and no byte until the client leaves
	Stall      int           // silent after so many bytes of the body; 0 is never
	Cut        int           // the connection breaks after so many bytes of the body; 0 is never
	Write      int           // bytes of each write; 0 is an event
	Body       string        // sent as it is, in place of what the fields above make
	Type       string        // Content-Type; "" is the right one
	NoUsage    bool          // usage is not reported
}

// Text is a Turn that answers with text.
func Text(text string) Turn { return Turn{Text: text} }

// CallTool is a Turn that calls one tool.
func CallTool(name, arguments string) Turn {
	return Turn{Calls: []Call{{Name: name, Arguments: arguments}}}
}

// Script returns a model that has these turns, one after the other. After the last, each
// request gets an error of status 500, which says so.
func Script(turns ...Turn) Model {
	var mu sync.Mutex
	left := slices.Clone(turns)
	return func(Request) Turn {
		mu.Lock()
		defer mu.Unlock()
		if len(left) == 0 {
			return Turn{Status: http.StatusInternalServerError, Message: "the script is over"}
		}
		t := left[0]
		left = left[1:]
		return t
	}
}

// A Server is a model that listens on a loopback port.
type Server struct {
	URL string // the field url of a node: http://127.0.0.1:PORT/v1

	handler *handler
	server  *httptest.Server
}

// New starts a server, which ends with the test. Change its options before the first
// request.
func New(t testing.TB, model Model) *Server {
	t.Helper()
	s := &Server{handler: &handler{model: model}}
	s.server = httptest.NewServer(s.handler)
	s.URL = s.server.URL + "/v1"
	t.Cleanup(s.Close)
	return s
}

// Handler returns what a server runs, with a key that it asks for unless that is empty.
func Handler(key string, model Model) http.Handler { return &handler{model: model, key: key} }

// Key makes the server refuse requests without this key.
func (s *Server) Key(key string) *Server {
	s.handler.key = key
	return s
}

// Models makes the server refuse requests for other models.
func (s *Server) Models(names ...string) *Server {
	s.handler.models = names
	return s
}

// Context makes the server refuse conversations of more tokens, four bytes each.
func (s *Server) Context(tokens int) *Server {
	s.handler.context = tokens
	return s
}

// Close ends the server, and all that it is saying. It may be called again.
func (s *Server) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// Requests returns those that were answered so far, also with an error of a Turn. Refused
// ones are not among them.
func (s *Server) Requests() []Request { return s.handler.all() }

// Reset forgets the requests so far: the next has the number 0.
func (s *Server) Reset() {
	s.handler.mu.Lock()
	defer s.handler.mu.Unlock()
	s.handler.mu.requests = nil
}

// Left is how many clients left before the end of what the server had to say.
func (s *Server) Left() int {
	s.handler.mu.Lock()
	defer s.handler.mu.Unlock()
	return s.handler.mu.left
}
