// Package api says what the admin server of a running program answers: its routes, who may ask them, and
// what is sent. The server, the OpenAPI document, the types of the console's page and the client are made
// from the one table of [Routes].
//
// Read [Routes] and [Route] first. [Client] asks a running program.
//
// The package must not know how an answer is found.
package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// A Scope is what a client may do. Each scope includes those before it.
type Scope int

// The scopes.
const (
	Open    Scope = iota // anybody who reaches the address: the page, and how to get more
	View                 // what is served, and how it runs
	Inspect              // what may hold contents of packets
	Control              // what changes the running program
)

var scopes = []string{"open", "view", "inspect", "control"}

func (s Scope) String() string { return scopes[s] }

// ParseScope returns the scope with a name. There is none with the name open: no client asks for it.
func ParseScope(name string) (Scope, bool) {
	i := slices.Index(scopes[View:], name)
	return View + Scope(i), i >= 0
}

// ScopeNames returns the names that [ParseScope] knows.
func ScopeNames() []string { return slices.Clone(scopes[View:]) }

// A Route is one thing that clients may ask for.
type Route struct {
	Method string
	Path   string // as in [http.ServeMux]; one that ends with a slash has others below it
	Scope  Scope
	Asks   bool    // it changes nothing, although it has a body
	Doc    string  // a phrase: what the answer is
	Params []Param // of the query

	// Body and Answer are values of the types that are sent as JSON; nil for none. An answer that is not
	// JSON has its media type in Media; both are there if a parameter chooses.
	Body   any
	Answer any
	Media  string
}

// A Param is a parameter of a query.
type Param struct {
	Name string
	Doc  string
	Enum []string // the values that are allowed; none for any
}

// MaxBody is the most bytes of a request's body.
const MaxBody = 4 << 20

// Base is what all paths for programs begin with.
const Base = "/api/v1/"

// The paths that code outside of the table names.
const (
	SlowPath    = Base + "slow/"
	GraphPath   = Base + "graph"
	StatusPath  = Base + "status"
	MetricsPath = Base + "metrics.json"
	EventsPath  = Base + "events"
	SessionPath = Base + "session"
	CodePath    = Base + "code"
	DebugPath   = Base + "debug"
	RunsPath    = Base + "runs"
	JobsPath    = RunsPath + "/bulk"
	QueuesPath  = Base + "queues"
	SignalsPath = Base + "signals"

	DocumentsPath = Base + "documents"
)

// Routes returns the table. A pattern is there once.
func Routes() []Route {
	namespace := Param{Name: "namespace", Doc: "the namespace to draw; that of the program by default"}
	namespaceOfQueue := Param{Name: "namespace", Doc: "the namespace of the queue; that of the program by default"}
	return []Route{
		{Method: http.MethodGet, Path: "/{$}", Scope: Open, Doc: "the console", Media: "text/html"},
		{Method: http.MethodGet, Path: "/assets/{file}", Scope: Open, Doc: "files of the console", Media: "*/*"},
		{Method: http.MethodPost, Path: SessionPath, Scope: Open, Doc: "a token for a code that the program has printed, or for a token", Body: Credentials{}, Answer: Session{}},

		{Method: http.MethodGet, Path: "/healthz", Scope: View, Doc: "200 while the program runs", Media: "text/plain"},
		{Method: http.MethodGet, Path: "/readyz", Scope: View, Doc: "200 while it serves and all nodes are ready", Media: "text/plain"},
		{Method: http.MethodGet, Path: "/metrics", Scope: View, Doc: "metrics for Prometheus", Media: "text/plain"},
		{Method: http.MethodGet, Path: Base + "{$}", Scope: View, Doc: "the paths of the API", Answer: Index{}},
		{Method: http.MethodGet, Path: Base + "openapi.json", Scope: View, Doc: "the API as an OpenAPI document", Media: "application/json"},
		{Method: http.MethodGet, Path: StatusPath, Scope: View, Doc: "the generation that serves, and how the last reload went", Answer: Status{}},
		{Method: http.MethodGet, Path: Base + "nodes", Scope: View, Doc: "the nodes that are served, and their links", Answer: []Node{}},
		{Method: http.MethodGet, Path: GraphPath, Scope: View, Doc: "the nodes and links that are served, with places to draw them", Answer: Graph{}, Media: "image/svg+xml", Params: []Param{
			namespace,
			{Name: "as", Doc: "the format: json by default", Enum: []string{"json", "svg", "mermaid"}},
			{Name: "closed", Doc: "draw each sub-graph as one box", Enum: []string{"true", "false"}},
		}},
		{Method: http.MethodGet, Path: Base + "kinds", Scope: View, Doc: "the kinds that documents may use", Answer: []Kind{}},
		{Method: http.MethodGet, Path: Base + "kinds/{kind}", Scope: View, Doc: "what a kind does", Answer: KindDetail{}},
		{Method: http.MethodGet, Path: MetricsPath, Scope: View, Doc: "what the nodes have done so far", Answer: Metrics{}},
		{Method: http.MethodGet, Path: Base + "processes", Scope: View, Doc: "the processes that wait, and for which nodes, and those that have ended lately", Answer: Processes{}, Params: []Param{
			{Name: "only", Doc: "of those that have ended: only these", Enum: []string{"failed", "slow"}},
		}},
		{Method: http.MethodGet, Path: Base + "processes/{id}", Scope: View, Doc: "a process that has ended, with its packets", Answer: Timeline{}},
		{Method: http.MethodGet, Path: Base + "nodes/{id}", Scope: View, Doc: "a node with its config, without secrets", Answer: NodeDetail{}},
		{Method: http.MethodGet, Path: Base + "nodes/{id}/packets", Scope: Inspect, Doc: "the last packets of a node, from the first request on", Answer: NodePackets{}},
		{Method: http.MethodGet, Path: Base + "queues", Scope: View, Doc: "what nodes report of themselves: what waits, lags, is held or was lost", Answer: []Queue{}},
		{Method: http.MethodGet, Path: Base + "queues/{id}/dead", Scope: View, Doc: "dead letters of a source in a file, with their payloads for those who may inspect", Answer: DeadLetters{}, Params: []Param{
			{Name: "file", Doc: "the index of the file; the first by default"},
			{Name: "from", Doc: "where the page begins: what next said"},
		}},
		{Method: http.MethodGet, Path: RunsPath, Scope: View, Doc: "durable runs, the latest first, without their payloads", Answer: Runs{}, Params: []Param{
			{Name: "state", Doc: "only those in these states, separated by commas, such as failed,stuck"},
			{Name: "trigger", Doc: "only those that the node with this name or id has started"},
			{Name: "queue", Doc: "only the items of the queue with this name"},
			{Name: "namespace", Doc: "of the trigger; that of the program by default"},
			{Name: "since", Doc: "only those that began in the last time, such as 1h"},
			{Name: "limit", Doc: "how many at most; 200 by default, and not more"},
			{Name: "after", Doc: "where the page begins: what next said"},
		}},
		{Method: http.MethodGet, Path: RunsPath + "/{id}", Scope: View, Doc: "a durable run with its records, and with their payloads for those who may inspect", Answer: RunDetail{}, Params: []Param{
			{Name: "payloads", Doc: "with payloads, which needs the scope inspect", Enum: []string{"true", "false"}},
			{Name: "after", Doc: "only records after this number: what next said"},
		}},
		{Method: http.MethodGet, Path: EventsPath, Scope: View, Doc: "what changes, as a stream of events: hello, then metrics each second", Media: "text/event-stream"},
		{Method: http.MethodGet, Path: SlowPath, Scope: View, Doc: "what was kept of slow processes", Media: "application/octet-stream"},
		{Method: http.MethodGet, Path: "/debug/pprof/", Scope: View, Doc: "profiles, for go tool pprof", Media: "application/octet-stream"},
		{Method: http.MethodGet, Path: "/debug/pprof/cmdline", Scope: View, Doc: "the command line", Media: "text/plain"},
		{Method: http.MethodGet, Path: "/debug/pprof/profile", Scope: View, Doc: "a CPU profile", Media: "application/octet-stream"},
		{Method: http.MethodGet, Path: "/debug/pprof/symbol", Scope: View, Doc: "names of addresses in the program", Media: "text/plain"},
		{Method: http.MethodPost, Path: "/debug/pprof/symbol", Scope: View, Doc: "names of addresses in the program", Media: "text/plain"},
		{Method: http.MethodGet, Path: "/debug/pprof/trace", Scope: View, Doc: "a trace of the Go runtime", Media: "application/octet-stream"},

		{Method: http.MethodPost, Path: CodePath, Scope: View, Doc: "the program prints another code"},
		{Method: http.MethodGet, Path: Base + "logs", Scope: Inspect, Doc: "the last lines of the log, the newest last", Answer: []LogLine{}, Params: []Param{
			{Name: "level", Doc: "the least level; info by default", Enum: []string{"debug", "info", "warn", "error"}},
			{Name: "node", Doc: "only lines about the node with this name"},
			{Name: "after", Doc: "only lines whose seq is above this"},
		}},
		{Method: http.MethodPost, Path: Base + "processes/{id}/cancel", Scope: Control, Doc: "end a process that waits: what it waits for ends with an error"},
		{Method: http.MethodPost, Path: Base + "nodes/{id}/packets", Scope: Control, Doc: "send a packet to a node, and wait for the answer", Body: Sending{}, Answer: Sent{}},
		{Method: http.MethodPost, Path: Base + "queues/{id}/dead", Scope: Control, Doc: "send dead letters of a source through the workflow again, and take those that have ended out of the file", Body: Requeue{}, Answer: []Requeued{}},
		{Method: http.MethodPost, Path: QueuesPath + "/{id}/pause", Scope: Control, Doc: "let no more items of the queue with this name begin", Params: []Param{namespaceOfQueue}},
		{Method: http.MethodPost, Path: QueuesPath + "/{id}/resume", Scope: Control, Doc: "let the items of the queue with this name begin again", Params: []Param{namespaceOfQueue}},
		{Method: http.MethodPost, Path: QueuesPath + "/{id}/items", Scope: Control, Doc: "put an item into the queue with this name: the answer is its run", Body: QueueItem{}, Answer: Run{}, Params: []Param{namespaceOfQueue}},
		{Method: http.MethodPost, Path: SignalsPath, Scope: Control, Doc: "send a signal to the durable runs that wait for an event, or to the one that a token stands for", Body: Signal{}, Answer: Signalled{}},
		{Method: http.MethodPost, Path: RunsPath + "/{id}/cancel", Scope: Control, Doc: "end a durable run that is queued, waits or was put aside", Answer: Run{}},
		{Method: http.MethodPost, Path: RunsPath + "/{id}/retry", Scope: Control, Doc: "let a durable run go on that has failed, is dead or was put aside: what has gone well is not done again; an item of a queue goes into it again", Body: RunRetry{}, Answer: Run{}},
		{Method: http.MethodPost, Path: RunsPath + "/{id}/restart", Scope: Control, Doc: "start another durable run with what this one has begun with, or with an input that is given, or from a node on, in the workflow that is served: the answer is the new one", Body: RunRestart{}, Answer: Run{}},
		{Method: http.MethodPost, Path: RunsPath + "/{id}/pause", Scope: Control, Doc: "put a durable run aside that is queued, waits or runs, until it is resumed: its state is still running if what it has begun has not ended after ten seconds, and it is paused then", Answer: Run{}},
		{Method: http.MethodPost, Path: RunsPath + "/{id}/resume", Scope: Control, Doc: "let a durable run go on that is paused", Answer: Run{}},
		{Method: http.MethodPost, Path: JobsPath, Scope: Control, Doc: "cancel, pause, resume, retry or restart many durable runs: the answer is a job, which goes on by itself; there is one at a time", Body: RunBulk{}, Answer: RunJob{}},
		{Method: http.MethodGet, Path: JobsPath, Scope: View, Doc: "the last jobs over durable runs, the latest first", Answer: []RunJob{}},
		{Method: http.MethodGet, Path: JobsPath + "/{id}", Scope: View, Doc: "how far a job is", Answer: RunJob{}},
		{Method: http.MethodDelete, Path: JobsPath + "/{id}", Scope: Control, Doc: "end a job: what it has done stays done", Answer: RunJob{}},
		{Method: http.MethodGet, Path: DebugPath, Scope: Control, Doc: "breakpoints, and the processes that are held", Answer: Debug{}},
		{Method: http.MethodPut, Path: DebugPath + "/breakpoints", Scope: Control, Doc: "hold processes at these places, for as long as the state is asked for", Body: Breakpoints{}, Answer: Debug{}},
		{Method: http.MethodPost, Path: DebugPath + "/held/{id}", Scope: Control, Doc: "let a process go on", Body: Move{}, Answer: Debug{}},
		{Method: http.MethodGet, Path: Base + "trails", Scope: Inspect, Doc: "the stores of events that nodes have, and what is in them", Answer: []Trail{}},
		{Method: http.MethodPost, Path: Base + "trails/query", Scope: Inspect, Asks: true, Doc: "ask a store of events: the answer is that of uniflow trail query --json", Body: TrailQuery{}, Media: "application/json"},
		{Method: http.MethodGet, Path: DocumentsPath, Scope: Inspect, Doc: "the documents that the program reads, without secrets unless they can be changed", Answer: Documents{}},
		{Method: http.MethodPost, Path: Base + "complete", Scope: Control, Asks: true, Doc: "what can be written at a place of a draft", Body: Place{}, Answer: []Completion{}},
		{Method: http.MethodPost, Path: Base + "hover", Scope: Control, Asks: true, Doc: "what stands at a place of a draft", Body: Place{}, Answer: Hover{}},
		{Method: http.MethodPost, Path: Base + "definition", Scope: Control, Asks: true, Doc: "where the node at a place of a draft has its name", Body: Place{}, Answer: Definition{}},
		{Method: http.MethodPost, Path: Base + "rename", Scope: Control, Asks: true, Doc: "the drafts in which the node at a place has another name", Body: Rename{}, Answer: []Document{}},
		{Method: http.MethodPost, Path: Base + "format", Scope: Control, Asks: true, Doc: "a draft in its canonical form", Body: Formatting{}, Answer: Formatted{}},
		{Method: http.MethodPost, Path: Base + "plan", Scope: Control, Asks: true, Doc: "what drafts would change, and what is wrong with them", Body: Drafts{}, Answer: Plan{}},
		{Method: http.MethodPost, Path: Base + "tests", Scope: Control, Doc: "run the tests in the documents, with drafts in their place", Body: TestRun{}, Answer: Tests{}},
		{Method: http.MethodPost, Path: Base + "try", Scope: Control, Doc: "send a packet through drafts, which are not served", Body: Trial{}, Answer: Tried{}},
		{Method: http.MethodPost, Path: Base + "apply", Scope: Control, Doc: "write drafts to the documents and serve them, or leave all as it was", Body: Apply{}, Answer: Applied{}},
		{Method: http.MethodGet, Path: Base + "revisions", Scope: Inspect, Doc: "the documents as they were since the program began, the newest first", Answer: []Revision{}},
		{Method: http.MethodPost, Path: Base + "revisions/{id}", Scope: Control, Doc: "go back to a revision", Answer: Applied{}},
		{Method: http.MethodPost, Path: Base + "reload", Scope: Control, Doc: "read the documents again, and serve them"},
	}
}

// Pattern is how [http.ServeMux] knows a route.
func (r *Route) Pattern() string { return r.Method + " " + r.Path }

// Listed is the path as an index shows it; empty for one that is found by another.
func (r *Route) Listed() string {
	path := strings.TrimSuffix(r.Path, "{$}")
	if r.Scope == Open || strings.HasPrefix(path, "/debug/pprof/") && path != "/debug/pprof/" {
		return ""
	}
	return path
}

// Fail answers with an [Error].
func Fail(w http.ResponseWriter, status int, message, hint string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(Error{Message: message, Hint: hint}) // the client has left
}
