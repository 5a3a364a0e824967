package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/diagram"
)

// An Error is the answer to a request that cannot be answered.
type Error struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty" jsonschema:"what to do about it"`
}

// Credentials are what a session is asked for with: one of the two.
type Credentials struct {
	Code  string `json:"code,omitempty" jsonschema:"from the line that the program has printed; it is good for one session"`
	Token string `json:"token,omitempty" jsonschema:"a token of the program"`
}

// A Session may ask until it expires, or the program ends.
type Session struct {
	Token   string    `json:"token" jsonschema:"for the header Authorization: Bearer TOKEN"`
	Scope   string    `json:"scope"`
	Expires time.Time `json:"expires"`
}

// An Index lists what can be asked for.
type Index struct {
	Endpoints []Endpoint `json:"endpoints"`
}

// An Endpoint is a path of an [Index].
type Endpoint struct {
	Path  string `json:"path"`
	What  string `json:"what"`
	Scope string `json:"scope"`
}

// A Status is how a program is.
type Status struct {
	Version    string     `json:"version"`
	Started    time.Time  `json:"started" jsonschema:"when the program began to run"`
	Ready      bool       `json:"ready"`
	Generation int        `json:"generation" jsonschema:"0 while nothing is served"`
	Since      *time.Time `json:"since,omitempty" jsonschema:"when the generation began to serve"`
	Namespace  string     `json:"namespace,omitempty" jsonschema:"that is drawn by default"`
	Namespaces []string   `json:"namespaces" jsonschema:"those that have nodes"`
	Nodes      int        `json:"nodes"`
	InFlight   int        `json:"in_flight" jsonschema:"processes that have not ended"`
	WaitingFor []string   `json:"waiting_for,omitempty" jsonschema:"why nodes are not ready"`
	Scope      string     `json:"scope" jsonschema:"what the client that asks may do"`
	Reload     *Reload    `json:"reload,omitempty" jsonschema:"the last; none while the program starts"`
}

// A Reload is how the last attempt to serve documents went.
type Reload struct {
	Time       time.Time      `json:"time"`
	Successful bool           `json:"successful"`
	Error      string         `json:"error,omitempty" jsonschema:"why the documents could not be started"`
	Findings   []diag.Finding `json:"findings,omitempty" jsonschema:"in the documents"`
}

// A Node is a node that is served, with the place of its spec.
type Node struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Col       int    `json:"col,omitempty"`
	Links     []Link `json:"links,omitempty"`
}

// A Link leads from a node to another.
type Link struct {
	Port string `json:"port" jsonschema:"of this node"`
	To   string `json:"to" jsonschema:"the id of the other"`
	Name string `json:"name,omitempty"`
	In   string `json:"in" jsonschema:"port of the other"`
}

// A Graph is one namespace of what is served, with places.
type Graph struct {
	Generation int             `json:"generation" jsonschema:"0 while nothing is served"`
	Diagram    diagram.Diagram `json:"diagram"`
}

// A Process is one that waits.
type Process struct {
	ID      string        `json:"id"`
	Trigger ProcessNode   `json:"trigger" jsonschema:"the node that started it"`
	At      []ProcessNode `json:"at" jsonschema:"the nodes that it waits in"`
}

// A ProcessNode is a node of a [Process].
type ProcessNode struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty"`
}

// Processes are those that have not ended.
type Processes struct {
	InFlight int       `json:"in_flight" jsonschema:"how many there are"`
	Waiting  int       `json:"waiting" jsonschema:"how many of these have waited for something"`
	List     []Process `json:"list" jsonschema:"those that wait, by id; 200 at most"`

	Since      time.Time `json:"since" jsonschema:"when processes began to be recorded: with the first request, until a minute after the last"`
	Unrecorded uint64    `json:"unrecorded" jsonschema:"how many started since without being recorded: more than 200 a second"`
	Ended      []Ended   `json:"ended" jsonschema:"those that were recorded, the newest first; 200 at most"`
}

// An Ended is a process that has ended.
type Ended struct {
	ID       string      `json:"id"`
	Trigger  ProcessNode `json:"trigger" jsonschema:"the node that started it"`
	Name     string      `json:"name,omitempty" jsonschema:"what the trigger says of it, such as the method and route of a request"`
	Start    time.Time   `json:"start"`
	Duration float64     `json:"duration" jsonschema:"seconds"`
	Outcome  string      `json:"outcome" jsonschema:"answered, nothing, failed or cancelled"`
	Failed   bool        `json:"failed"`
	Error    string      `json:"error,omitempty"`
	Spans    int         `json:"spans" jsonschema:"how many packets were recorded"`
}

// A Timeline is a process that has ended, with its packets. Times are in seconds since its start.
type Timeline struct {
	Process    Ended    `json:"process"`
	Trace      string   `json:"trace" jsonschema:"the id of its trace"`
	Unrecorded int      `json:"unrecorded" jsonschema:"packets after the first 1,000"`
	Packets    []Span   `json:"packets" jsonschema:"in the order in which nodes received them"`
	First      *Payload `json:"first,omitempty" jsonschema:"what the trigger began with, for those who may inspect"`
	Response   *Payload `json:"response,omitempty" jsonschema:"of the process, likewise"`
}

// A Span is a packet at a node.
type Span struct {
	Node    ProcessNode `json:"node"`
	In      int         `json:"in" jsonschema:"index of the in-port"`
	Parent  int         `json:"parent" jsonschema:"index of the packet whose node has sent this one; -1 for the trigger, or if that has no record"`
	Out     int         `json:"out" jsonschema:"index of the out-port that it came from; -1 for error"`
	Start   float64     `json:"start" jsonschema:"when it arrived"`
	Queue   float64     `json:"queue" jsonschema:"how long it waited"`
	Run     float64     `json:"run" jsonschema:"how long the code of the node ran"`
	Wait    float64     `json:"wait" jsonschema:"how long blocking work took"`
	End     float64     `json:"end" jsonschema:"when the work of the node on it ended"`
	Error   string      `json:"error,omitempty" jsonschema:"of a failure of the node itself"`
	Payload *Payload    `json:"payload,omitempty" jsonschema:"that came to the node, for those who may inspect"`

	Replayed bool `json:"replayed,omitempty" jsonschema:"a durable process repeated what it did before a crash, or before it left memory"`
}

// A Payload is what a packet carries, without secrets.
type Payload struct {
	Kind string `json:"kind" jsonschema:"map, list, string, and so on; none for a response without a payload; empty if the payload was not kept"`
	Size int    `json:"size" jsonschema:"bytes in memory"`
	Text string `json:"text,omitempty" jsonschema:"as JSON"`
	Cut  bool   `json:"cut,omitempty" jsonschema:"the text is not all of it; it is empty if the payload was not kept"`
}

// A NodeDetail is a node with its config.
type NodeDetail struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name,omitempty"`
	In        int       `json:"in" jsonschema:"how many in-ports it has"`
	Settings  []Setting `json:"settings" jsonschema:"in the order of the kind's fields"`
}

// A Setting is a field of a node's config.
type Setting struct {
	Path   string `json:"path" jsonschema:"such as routes[0].method"`
	Text   string `json:"text" jsonschema:"the value as JSON, without secrets"`
	Given  bool   `json:"given" jsonschema:"the document has it; otherwise it is the default"`
	Hidden bool   `json:"hidden,omitempty" jsonschema:"it is a secret, or a variable made it"`
}

// A Sending is a packet to send to a node. It has all effects that any other packet has.
type Sending struct {
	Port int    `json:"port,omitempty" jsonschema:"index of the in-port"`
	Text string `json:"text" jsonschema:"the payload, as JSON"`
}

// A Sent is what became of a packet.
type Sent struct {
	Failed  bool    `json:"failed"`
	Payload Payload `json:"payload" jsonschema:"the answer"`
}

// Breakpoints are all that there are to be. None ends the session, and what is held goes on.
type Breakpoints struct {
	List []Breakpoint `json:"list"`
}

// A Breakpoint is a place where processes are held.
type Breakpoint struct {
	Node   string `json:"node" jsonschema:"its id; all nodes if it is empty"`
	Point  string `json:"point" jsonschema:"in: before the node has the packet; out: before what it sends is delivered; answer: before the answer goes back"`
	Port   *int   `json:"port,omitempty" jsonschema:"of out: the index of the out-port, -1 for error; all if it is left out"`
	When   string `json:"when,omitempty" jsonschema:"a condition in CEL over the payload, without secrets"`
	After  int    `json:"after,omitempty" jsonschema:"how many times the place is passed before a process is held"`
	Once   bool   `json:"once,omitempty" jsonschema:"it is removed when it has held one"`
	Log    string `json:"log,omitempty" jsonschema:"a text with expressions over the payload, such as came ${self.n}: nothing is held, and the text is among the messages"`
	Hits   int    `json:"hits,omitempty" jsonschema:"how many have come there, and met the condition; not read"`
	Faulty string `json:"faulty,omitempty" jsonschema:"why the condition could not be evaluated; not read"`
}

// BreakpointAt returns a breakpoint at a point as people write it: in, which is the default, out, out[2], error or answer.
func BreakpointAt(node, point string) (Breakpoint, error) {
	b := Breakpoint{Node: node, Point: cmp.Or(point, "in")}
	port := -1
	if index, ok := strings.CutPrefix(point, "out["); ok {
		var err error
		if port, err = strconv.Atoi(strings.TrimSuffix(index, "]")); err != nil || port < 0 {
			return b, fmt.Errorf("point %q: want in, out, out[2], error or answer", point)
		}
		point = "error" // or another port
	}
	if point == "error" {
		b.Point, b.Port = "out", &port
	}
	return b, nil
}

// A Debug is the state of the debugger. It ends 15 seconds after the last request for it.
type Debug struct {
	Breakpoints []Breakpoint `json:"breakpoints"`
	Held        []Held       `json:"held" jsonschema:"processes, the one that waits the longest first"`
	Skipped     int          `json:"skipped" jsonschema:"how many were let pass because 16 were held"`
	Messages    []Message    `json:"messages" jsonschema:"the last ones of breakpoints with a log, the oldest first"`
	Untold      int          `json:"untold,omitempty" jsonschema:"messages that were left out because there were more than 100 in a second"`
}

// A Message is what a breakpoint with a log has told.
type Message struct {
	Number  uint64      `json:"number" jsonschema:"from 1"`
	Time    time.Time   `json:"time"`
	Node    ProcessNode `json:"node"`
	Process string      `json:"process" jsonschema:"its id"`
	Text    string      `json:"text"`
}

// A Held is a process that is held. Others run meanwhile.
type Held struct {
	ID      uint64        `json:"id"`
	Process string        `json:"process" jsonschema:"its id"`
	Node    ProcessNode   `json:"node"`
	Point   string        `json:"point" jsonschema:"in, out or answer"`
	Port    int           `json:"port" jsonschema:"the in-port; of out the first out-port, -1 for error"`
	Step    bool          `json:"step" jsonschema:"a step has ended here"`
	Left    float64       `json:"left" jsonschema:"seconds until it goes on by itself"`
	Came    Payload       `json:"came" jsonschema:"what came to the node"`
	Sends   []HeldPacket  `json:"sends,omitempty" jsonschema:"of out: what it sends"`
	Answer  *Payload      `json:"answer,omitempty" jsonschema:"of answer"`
	Callers []ProcessNode `json:"callers" jsonschema:"the nodes that wait for the answer, the nearest first"`
}

// A HeldPacket is one that a node is about to send.
type HeldPacket struct {
	Port    int     `json:"port" jsonschema:"index of the out-port; -1 for error"`
	Payload Payload `json:"payload"`
}

// A Move lets a process go on.
type Move struct {
	Do   string  `json:"do" jsonschema:"continue; into: to its next point; over: to the answer; out: to its next point after the answer; answer, fail or drop: in place of what the node does"`
	Text *string `json:"text,omitempty" jsonschema:"another payload to go on with, as JSON: what is left as it was shown stays as it is; of answer the answer; of fail the message"`
}

// NodePackets are the last packets of a node.
type NodePackets struct {
	Skipped uint64       `json:"skipped" jsonschema:"how many were left out: more than 20 a second of a port"`
	List    []NodePacket `json:"list" jsonschema:"the newest first; 16 of each port"`
}

// A NodePacket is one that came to a node or was sent by it.
type NodePacket struct {
	Time      time.Time `json:"time"`
	Process   string    `json:"process" jsonschema:"its id"`
	Direction string    `json:"direction" jsonschema:"received, sent or answered"`
	Port      int       `json:"port" jsonschema:"index of the in-port, or of the out-port it was sent on; -1 for error, -2 for what a trigger began with"`
	Payload   Payload   `json:"payload"`
	Replayed  bool      `json:"replayed,omitempty" jsonschema:"a durable process repeated what it did before a crash, or before it left memory"`
}

// MaxProcesses is how many processes are listed at most.
const MaxProcesses = 200

// A Kind is a kind of node.
type Kind struct {
	Kind    string `json:"kind"`
	Summary string `json:"summary"`
}

// A KindDetail is a kind with its text.
type KindDetail struct {
	Kind    string `json:"kind"`
	Summary string `json:"summary"`
	Doc     string `json:"doc" jsonschema:"Markdown"`
}

// A LogLine is a line of the log.
type LogLine struct {
	Seq     uint64    `json:"seq" jsonschema:"the first line has 1"`
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Message string    `json:"message"`
	Attrs   []Attr    `json:"attrs,omitempty"`
}

// An Attr is a value of a [LogLine], as text.
type Attr struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Hello is the first event of a stream, and comes again after each reload: later events count nodes by
// their index here.
type Hello struct {
	Generation int         `json:"generation"`
	Interval   float64     `json:"interval" jsonschema:"seconds between events of metrics"`
	Nodes      []MetricsOf `json:"nodes"`
}

// MetricsOf names the node, or the nodes without a name, that a row of [Metrics] is about.
type MetricsOf struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty"`
}

// Metrics are counts since the program began. In a stream, rows that did not change are left out.
type Metrics struct {
	Time       time.Time     `json:"time"`
	Generation int           `json:"generation"`
	InFlight   int           `json:"in_flight" jsonschema:"processes that have not ended"`
	Started    uint64        `json:"started" jsonschema:"processes"`
	Failed     uint64        `json:"failed" jsonschema:"processes that ended with an error"`
	Dropped    int           `json:"dropped,omitempty" jsonschema:"events that were merged into this one, as the client did not read"`
	Of         []MetricsOf   `json:"of,omitempty" jsonschema:"what the rows are about, outside of a stream"`
	Rows       []NodeMetrics `json:"rows"`
}

// NodeMetrics is a row of [Metrics].
type NodeMetrics struct {
	Node    int     `json:"node" jsonschema:"index in nodes of hello, or in of"`
	Packets uint64  `json:"packets" jsonschema:"received; processes started, of a trigger"`
	Errors  uint64  `json:"errors" jsonschema:"failures of the node itself"`
	Rate    float64 `json:"rate" jsonschema:"packets in a second, of the last seconds"`
	Failing float64 `json:"failing" jsonschema:"errors in a second, of the last seconds"`
	Load    float64 `json:"load" jsonschema:"share of one processor that its code takes, of the last seconds"`
	P50     float64 `json:"p50" jsonschema:"seconds: half of the packets took at most this long, of the last seconds; an upper bound, 0 for none"`
	P99     float64 `json:"p99" jsonschema:"seconds: 99 of 100"`

	Sent []float64 `json:"sent,omitempty" jsonschema:"packets in a second by out-port, of the last seconds; the last is for error; estimates"`
}

// Equal reports whether two rows are the same.
func (m NodeMetrics) Equal(other NodeMetrics) bool {
	return m.Node == other.Node && m.Packets == other.Packets && m.Errors == other.Errors && m.Rate == other.Rate && m.Failing == other.Failing &&
		m.Load == other.Load && m.P50 == other.P50 && m.P99 == other.P99 && slices.Equal(m.Sent, other.Sent)
}

// A Queue is what a node reports of itself, such as a sink of what waits in it, and a source of its lag.
type Queue struct {
	ID      string    `json:"id"`
	Node    MetricsOf `json:"node"`
	Waiting string    `json:"waiting,omitempty" jsonschema:"why the node is not ready"`
	Figures []Figure  `json:"figures"`
	Dead    bool      `json:"dead,omitempty" jsonschema:"a sink of its port error has a file of dead letters"`
	Items   *Items    `json:"items,omitempty" jsonschema:"of a queue of durable runs"`
}

// Items are those of a queue of durable runs.
type Items struct {
	Queued int        `json:"queued" jsonschema:"how many have not begun"`
	Taken  int        `json:"taken" jsonschema:"how many have begun and not ended"`
	Oldest *time.Time `json:"oldest,omitempty" jsonschema:"when the first of those that have not begun was, or is, due"`
	Paused bool       `json:"paused,omitempty" jsonschema:"none begins"`
}

// A QueueItem is put into a queue of durable runs.
type QueueItem struct {
	Payload  json.RawMessage `json:"payload,omitempty" jsonschema:"any JSON; null unless set"`
	Priority int             `json:"priority,omitempty" jsonschema:"from -100 to 100: the greater is first, in a queue with order: priority"`
	After    string          `json:"after,omitempty" jsonschema:"how long it waits before it may begin, such as 1h"`
	ID       string          `json:"id,omitempty" jsonschema:"what is put again with the same id is put once"`
}

// MaxLetters is how many dead letters are listed, or sent again by one request, at most.
const MaxLetters = 50

// DeadLetters are dead letters of a source in a file.
type DeadLetters struct {
	Files   []string     `json:"files" jsonschema:"of the sinks that the port error leads to"`
	Letters []DeadLetter `json:"letters" jsonschema:"in the order of the file"`
	Next    int64        `json:"next,omitempty" jsonschema:"where the next page begins; there is none without it"`
	Begun   bool         `json:"begun,omitempty" jsonschema:"uniflow dead requeue has begun with other letters of the file, and has not ended"`
}

// A DeadLetter is a message that a source has sent to its port error.
type DeadLetter struct {
	At       int64    `json:"at" jsonschema:"where it is in the file, in bytes"`
	Sum      string   `json:"sum" jsonschema:"tells it from another letter at the same place"`
	Time     string   `json:"time,omitempty"`
	Failed   string   `json:"failed,omitempty" jsonschema:"the node that failed"`
	Place    string   `json:"place,omitempty" jsonschema:"where that is in the documents"`
	Attempts string   `json:"attempts,omitempty"`
	Code     string   `json:"code,omitempty"`
	Reason   string   `json:"reason"`
	Payload  *Payload `json:"payload,omitempty" jsonschema:"the message, for those who may inspect"`
}

// A Requeue are dead letters to send through the workflow again, by their source.
type Requeue struct {
	File    int             `json:"file,omitempty" jsonschema:"index in files"`
	Letters []RequeueLetter `json:"letters"`
}

// A RequeueLetter is a dead letter that is sent again.
type RequeueLetter struct {
	At   int64   `json:"at"`
	Sum  string  `json:"sum"`
	Text *string `json:"text,omitempty" jsonschema:"another payload in place of its own, as JSON; what is [redacted] in it stays as it was"`
}

// A Requeued is what became of a letter that was sent again.
type Requeued struct {
	At      int64  `json:"at"`
	Outcome string `json:"outcome" jsonschema:"answered; failed: it is another dead letter now; kept: it did not end, and may be sent again; gone: it was not there any more"`
	Error   string `json:"error,omitempty" jsonschema:"why the letter is still in the file"`
}

// MaxRuns is how many runs a page has at most, MaxRecords how many records of a run.
const (
	MaxRuns    = 200
	MaxRecords = 500
)

// Runs are durable runs.
type Runs struct {
	Runs []Run  `json:"runs" jsonschema:"the latest first"`
	Next string `json:"next,omitempty" jsonschema:"where the next page begins; there is none without it"`
}

// A Run is a durable process, over all crashes.
type Run struct {
	ID       string      `json:"id"`
	State    string      `json:"state" jsonschema:"running, ok or failed; dead: the program has crashed each time that it went on with it, or the last attempt of an item of a queue has failed; stuck: its documents have changed; diverged: it did not do again what its records say; and queued, waiting, cancelled, paused, parked"`
	Level    string      `json:"level" jsonschema:"of its durability: accept or checkpoint"`
	Trigger  ProcessNode `json:"trigger" jsonschema:"the node that has started it; without a name if the node is not known any more"`
	Revision string      `json:"revision" jsonschema:"hash of the documents that it runs"`
	Keyed    bool        `json:"keyed,omitempty" jsonschema:"it has an idempotency key"`
	Resumed  int         `json:"resumed,omitempty" jsonschema:"how often it went on after a crash since its last record"`
	Error    string      `json:"error,omitempty" jsonschema:"why it has failed, or was put aside"`
	Began    time.Time   `json:"began"`
	Ended    *time.Time  `json:"ended,omitempty" jsonschema:"or when it was put aside"`
	Queue    *RunQueue   `json:"queue,omitempty" jsonschema:"of an item of a queue"`
	Waits    []RunWait   `json:"waits,omitempty" jsonschema:"what it waits for; a list has those of a run that has not ended and was not put aside"`
}

// A RunQueue is what a run has that is an item of a queue.
type RunQueue struct {
	Name     string     `json:"name"`
	Key      string     `json:"key,omitempty" jsonschema:"what it has in common with others"`
	Priority int        `json:"priority,omitempty"`
	Failed   int        `json:"failed,omitempty" jsonschema:"attempts that have failed"`
	Due      *time.Time `json:"due,omitempty" jsonschema:"of one that is queued: when it may begin"`
}

// A RunWait is what a run waits for: a signal, a time, or the first of both.
type RunWait struct {
	Event string       `json:"event,omitempty" jsonschema:"of the signal; there is none if it waits for a time, or for a token only"`
	Key   string       `json:"key,omitempty" jsonschema:"of the signal"`
	Token bool         `json:"token,omitempty" jsonschema:"a token stands for the signal, too"`
	Due   *time.Time   `json:"due,omitempty" jsonschema:"when the wait ends without a signal"`
	Node  *ProcessNode `json:"node,omitempty" jsonschema:"that waits; a list may have none"`
}

// A Signal is a message for the durable runs that wait for an event with a key. All of them get it, or the first
// that waits for them later.
type Signal struct {
	Namespace string          `json:"namespace,omitempty" jsonschema:"of the runs; that of the program by default"`
	Event     string          `json:"event,omitempty" jsonschema:"which the runs wait for"`
	Key       string          `json:"key,omitempty" jsonschema:"for whose event"`
	Token     string          `json:"token,omitempty" jsonschema:"stands for namespace, event, key and id; it is good once"`
	ID        string          `json:"id,omitempty" jsonschema:"what is sent again with the same id is sent once"`
	Payload   json.RawMessage `json:"payload,omitempty" jsonschema:"what the runs get; null by default"`
	Keep      string          `json:"keep,omitempty" jsonschema:"how long it is kept for a run that waits later, and its id is known, such as 1h; 24h by default"`
}

// Signalled is a signal that no crash can lose.
type Signalled struct {
	ID string `json:"id,omitempty" jsonschema:"of the signal; none with a token"`
}

// A RunRestart says what another run begins with, or where. Only one of the two may be set.
type RunRestart struct {
	Input json.RawMessage `json:"input,omitempty" jsonschema:"in place of what the first one has begun with; what is [redacted] in it stays as it was"`
	From  string          `json:"from,omitempty" jsonschema:"name of a node, or its id: what the first one has recorded counts, except of the node and of all that its answers lead to"`
}

// A RunRetry says how a run goes on.
type RunRetry struct {
	Latest bool `json:"latest,omitempty" jsonschema:"in the workflow that is served now: records count where the run comes to the same places with the same input"`
}

// MaxRate is how many runs a [RunBulk] may act on in a second.
const MaxRate = 1000

// A RunBulk asks to do the same with many runs: those with the ids, or those that a filter selects.
type RunBulk struct {
	Do     string     `json:"do" jsonschema:"cancel, pause, resume, retry or restart"`
	Latest bool       `json:"latest,omitempty" jsonschema:"of retry: in the workflow that is served now"`
	IDs    []string   `json:"ids,omitempty" jsonschema:"of up to 200 runs"`
	Where  *RunFilter `json:"where,omitempty" jsonschema:"in place of ids"`
	Rate   int        `json:"rate,omitempty" jsonschema:"how many in a second, up to 1000; 50 by default"`
	DryRun bool       `json:"dry_run,omitempty" jsonschema:"only count them"`
}

// A RunFilter selects runs that meet all of its conditions, the latest first. It has at least one.
type RunFilter struct {
	States    []string   `json:"states,omitempty" jsonschema:"those in one of these"`
	Trigger   string     `json:"trigger,omitempty" jsonschema:"those that the node with this name or id has started"`
	Namespace string     `json:"namespace,omitempty" jsonschema:"of the trigger; that of the program by default"`
	Since     *time.Time `json:"since,omitempty" jsonschema:"those that began then or later"`
}

// A RunJob is what has come of a [RunBulk]. It is in the memory of the program, and ends with it.
type RunJob struct {
	ID       string       `json:"id"`
	Do       string       `json:"do"`
	State    string       `json:"state" jsonschema:"running, done or cancelled; failed: nothing can be done any more, and why is in error"`
	Error    string       `json:"error,omitempty"`
	Selected int          `json:"selected,omitempty" jsonschema:"of dry_run: how many runs there are"`
	Done     int          `json:"done" jsonschema:"how many runs it was done with"`
	Refused  []RunRefused `json:"refused" jsonschema:"those that it was not done with, by their reasons, of which 20 are told apart"`
	Began    time.Time    `json:"began"`
	Ended    *time.Time   `json:"ended,omitempty"`
}

// RunRefused are runs with which something could not be done.
type RunRefused struct {
	Runs    int    `json:"runs" jsonschema:"how many"`
	Message string `json:"message" jsonschema:"why"`
	Example string `json:"example" jsonschema:"the id of the first"`
}

// A RunDetail is a durable run with its records.
type RunDetail struct {
	Run     Run         `json:"run"`
	Records []RunRecord `json:"records" jsonschema:"in the order in which they were made"`
	Next    int         `json:"next,omitempty" jsonschema:"the number after which the next page of records begins; there is none without it"`
	Input   *Payload    `json:"input,omitempty" jsonschema:"what it began with, if payloads are asked for"`
	Answer  *Payload    `json:"answer,omitempty" jsonschema:"if it has ended, and payloads are asked for"`
}

// A RunRecord is something about a run that a crash must not lose.
type RunRecord struct {
	N       int         `json:"n" jsonschema:"its number, from 1"`
	Node    ProcessNode `json:"node"`
	Type    string      `json:"type" jsonschema:"result: what the node made of a packet; note: a decision of the node; hold: a wait has begun; arrival: what the node waited for has come; child: a child process has ended"`
	Outcome string      `json:"outcome,omitempty" jsonschema:"of a result: answer, none, error or send"`
	Port    *int        `json:"port,omitempty" jsonschema:"index of the out-port, of send"`
	At      time.Time   `json:"at"`
	Payload *Payload    `json:"payload,omitempty" jsonschema:"if payloads are asked for"`
}

// A Figure is a number of a [Queue].
type Figure struct {
	Name   string            `json:"name" jsonschema:"as in /metrics, without uniflow_"`
	Help   string            `json:"help"`
	Type   string            `json:"type" jsonschema:"gauge, counter or histogram"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value" jsonschema:"of a histogram the number of observations"`
	Mean   float64           `json:"mean,omitempty" jsonschema:"of the observations of a histogram"`
}

// Documents are the documents that a program reads.
type Documents struct {
	Revision  string     `json:"revision" jsonschema:"changes with any of them"`
	Editable  bool       `json:"editable" jsonschema:"the program was started with --edit, and the client may change them"`
	Documents []Document `json:"documents"`
}

// A Document is the text of a file.
type Document struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// Drafts are texts in place of those of files.
type Drafts struct {
	Drafts []Document `json:"drafts"`
}

// A Place is a place in a document, as drafts have it.
type Place struct {
	Drafts []Document `json:"drafts"`
	File   string     `json:"file"`
	Line   int        `json:"line" jsonschema:"from 1"`
	Col    int        `json:"col" jsonschema:"from 1, in characters"`
}

// A Definition is where something has its name.
type Definition struct {
	File string `json:"file" jsonschema:"empty if there is none"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
}

// A Rename asks for another name for the node, or the template, at a place.
type Rename struct {
	At   Place  `json:"at"`
	Name string `json:"name"`
}

// A Formatting asks for a draft in its canonical form.
type Formatting struct {
	Draft Document `json:"draft"`
}

// A Formatted is a draft in its canonical form.
type Formatted struct {
	Text     string         `json:"text"`
	Findings []diag.Finding `json:"findings" jsonschema:"why it cannot be read; then the text is as it was"`
}

// A Completion is something that can be written at a [Place], in the same line.
type Completion struct {
	Label  string `json:"label"`
	Class  string `json:"class" jsonschema:"kind, field, word, node, port or variable"`
	Detail string `json:"detail,omitempty"`
	Doc    string `json:"doc,omitempty" jsonschema:"Markdown"`
	From   int    `json:"from" jsonschema:"the first column of what it replaces, from 1"`
	To     int    `json:"to" jsonschema:"the column after it"`
	Text   string `json:"text"`
}

// A Hover is what stands at a [Place].
type Hover struct {
	Doc string `json:"doc" jsonschema:"Markdown; empty if nothing is known"`
}

// A Plan is what drafts would change.
type Plan struct {
	Revision string        `json:"revision" jsonschema:"that they were compared with"`
	Findings []PlanFinding `json:"findings"`
	Changes  []NodeChange  `json:"changes" jsonschema:"none while a document cannot be read"`
	InFlight int           `json:"in_flight" jsonschema:"processes that would run to their end on what serves now"`
}

// A PlanFinding is a finding, and where the part of its line that it is about ends.
type PlanFinding struct {
	Finding diag.Finding `json:"finding"`
	End     int          `json:"end" jsonschema:"the column after it"`
}

// A NodeChange is a node that a plan adds, removes or changes.
type NodeChange struct {
	What      string        `json:"what" jsonschema:"added, removed or changed"`
	ID        string        `json:"id"`
	Kind      string        `json:"kind"`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name,omitempty"`
	File      string        `json:"file"`
	Line      int           `json:"line"`
	Fields    []FieldChange `json:"fields,omitempty"`
}

// A FieldChange is a field that a plan changes.
type FieldChange struct {
	Path   string `json:"path"`
	Before string `json:"before" jsonschema:"JSON without secrets; empty if it is not there"`
	After  string `json:"after" jsonschema:"likewise"`
}

// A TestRun asks to run tests.
type TestRun struct {
	Drafts []Document `json:"drafts"`
	Run    string     `json:"run,omitempty" jsonschema:"a regular expression over NAMESPACE/NAME; all if it is empty"`
}

// Tests are what came of a [TestRun].
type Tests struct {
	Tests []Test `json:"tests"`
	Nodes Share  `json:"nodes" jsonschema:"that tests have used"`
	Links Share  `json:"links" jsonschema:"likewise"`
}

// A Test is what came of one.
type Test struct {
	Name    string  `json:"name" jsonschema:"NAMESPACE/NAME"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Passed  bool    `json:"passed"`
	Seconds float64 `json:"seconds"`
	Text    string  `json:"text,omitempty" jsonschema:"what failed"`
}

// A Trial asks what drafts do with a packet. They are not served, and nothing outside changes.
type Trial struct {
	Drafts []Document `json:"drafts"`
	Node   string     `json:"node" jsonschema:"NAME or NAMESPACE/NAME of the node that the packet comes to; a trigger stands for what it leads to"`
	Text   string     `json:"text" jsonschema:"the payload, as JSON"`
	Pins   []Pin      `json:"pins,omitempty" jsonschema:"what nodes answer in place of what they do"`
	Allow  []string   `json:"allow,omitempty" jsonschema:"names of nodes that run although they may change something outside; the others fail"`
}

// A Pin is what a node answers.
type Pin struct {
	Node string `json:"node" jsonschema:"NAME or NAMESPACE/NAME"`
	Text string `json:"text" jsonschema:"the answer, as JSON"`
}

// A Tried is what came of a [Trial].
type Tried struct {
	Failed   bool           `json:"failed"`
	Answer   Payload        `json:"answer"`
	Findings []diag.Finding `json:"findings" jsonschema:"why it failed"`
	Steps    []Step         `json:"steps" jsonschema:"the last packets that nodes sent"`
	Skipped  int            `json:"skipped,omitempty" jsonschema:"how many packets came before these"`
	Log      string         `json:"log,omitempty"`
	Seconds  float64        `json:"seconds"`
}

// A Step is a packet that a node has sent.
type Step struct {
	From    string   `json:"from" jsonschema:"empty for the packet of the trial"`
	Named   bool     `json:"named" jsonschema:"from is a name, which pins and allow can have"`
	Out     string   `json:"out"`
	To      []string `json:"to" jsonschema:"NODE.PORT; none if it is the answer"`
	Payload Payload  `json:"payload"`
}

// A Share is how many of all.
type Share struct {
	Used int `json:"used"`
	Of   int `json:"of"`
}

// Apply asks to write drafts.
type Apply struct {
	Revision string     `json:"revision" jsonschema:"that the drafts were made of"`
	Drafts   []Document `json:"drafts"`
	Why      string     `json:"why,omitempty"`
}

// Applied is what came of a change: it serves, or nothing has changed.
type Applied struct {
	OK         bool           `json:"ok"`
	Error      string         `json:"error,omitempty" jsonschema:"why it could not be served"`
	Findings   []diag.Finding `json:"findings"`
	Generation int            `json:"generation" jsonschema:"that serves now"`
}

// A Revision is the documents as they were once.
type Revision struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"`
}

// A Trail is a store of events that a node reads or writes.
type Trail struct {
	Folder     string       `json:"folder"`
	Error      string       `json:"error,omitempty" jsonschema:"why it cannot be read"`
	Rows       int64        `json:"rows" jsonschema:"events"`
	Users      int64        `json:"users"`
	From       *time.Time   `json:"from,omitempty" jsonschema:"of the first event"`
	To         *time.Time   `json:"to,omitempty" jsonschema:"of the last"`
	Events     []TrailEvent `json:"events" jsonschema:"by count, at most 200"`
	Properties []string     `json:"properties"`
}

// A TrailEvent is a name of events.
type TrailEvent struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// A TrailQuery asks a store.
type TrailQuery struct {
	Folder string `json:"folder"`
	Query  string `json:"query" jsonschema:"a funnel, retention, segment, cohort or paths in YAML or JSON"`
}
