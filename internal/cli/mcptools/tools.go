package mcptools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/internal/api"
)

// What tools are given.
type (
	none  struct{}
	named struct {
		Node string `json:"node" jsonschema:"the name or the id of a node"`
	}
	sorted struct {
		Sort    string `json:"sort,omitempty" jsonschema:"load (the default), rate, failing, p50 or p99"`
		Seconds int    `json:"seconds,omitempty" jsonschema:"how long to measure; 2 by default, at most 30"`
		Limit   int    `json:"limit,omitempty" jsonschema:"how many; 50 by default"`
	}
	only struct {
		Only string `json:"only,omitempty" jsonschema:"failed or slow; all by default"`
	}
	identified struct {
		ID string `json:"id"`
	}
	kindNamed struct {
		Kind string `json:"kind,omitempty" jsonschema:"all are listed if it is left out"`
	}
	logged struct {
		Level string `json:"level,omitempty" jsonschema:"the least: debug, info (the default), warn or error"`
		Node  string `json:"node,omitempty" jsonschema:"the name of a node"`
	}
	sent struct {
		Node    string `json:"node" jsonschema:"the name or the id of a node"`
		Payload any    `json:"payload" jsonschema:"any JSON"`
	}
	deadFrom struct {
		Node string `json:"node" jsonschema:"the name or the id of a source"`
		From int64  `json:"from,omitempty" jsonschema:"where the page begins: what next said"`
	}
	deadLetter struct {
		Node    string `json:"node" jsonschema:"the name or the id of the source"`
		At      int64  `json:"at"`
		Sum     string `json:"sum"`
		Payload any    `json:"payload,omitempty" jsonschema:"another message in place of its own: any JSON with body"`
	}
	drafted struct {
		Drafts []api.Document `json:"drafts" jsonschema:"whole documents in place of those of the same file"`
	}
	tested struct {
		Drafts []api.Document `json:"drafts,omitempty" jsonschema:"whole documents in place of those of the same file"`
		Run    string         `json:"run,omitempty" jsonschema:"a regular expression over NAMESPACE/NAME; all tests by default"`
	}
	applied struct {
		Drafts []api.Document `json:"drafts" jsonschema:"whole documents in place of those of the same file"`
		Why    string         `json:"why" jsonschema:"the reason, for the person who is asked and for the list of revisions"`
	}
	held struct {
		Breakpoints []breakpoint `json:"breakpoints" jsonschema:"all that there are to be; none lets all processes go on"`
	}
	breakpoint struct {
		Node  string `json:"node" jsonschema:"the name or the id of a node"`
		Point string `json:"point,omitempty" jsonschema:"in (the default), out, out[2], error or answer"`
		When  string `json:"when,omitempty" jsonschema:"a condition in CEL over the payload"`
	}
	waited struct {
		Seconds float64 `json:"seconds,omitempty" jsonschema:"how long to wait until a process is held, at most 30"`
	}
	moved struct {
		ID      uint64 `json:"id" jsonschema:"of the process that is held"`
		Do      string `json:"do" jsonschema:"continue, into, over, answer, fail or drop"`
		Payload string `json:"payload,omitempty" jsonschema:"JSON: another payload to go on with, or the answer; of fail the message"`
	}
)

// measured is a node with what it does.
type measured struct {
	ID        string  `json:"id"`
	Name      string  `json:"name,omitempty"`
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace"`
	Place     string  `json:"place"`
	Packets   uint64  `json:"packets"`
	Errors    uint64  `json:"errors"`
	Rate      float64 `json:"rate"`
	Failing   float64 `json:"failing"`
	Load      float64 `json:"load"`
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
}

// view adds the tools of the scope view.
func (t *Tools) view(server *sdk.Server) {
	add(server, "status", "The generation that serves, and how the last reload went.", false, false, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (any, error) {
		var v api.Status
		return &v, t.get(ctx, "status", &v)
	})
	add(server, "nodes", "All nodes with their numbers: packets and errors since the start; rate and failing a second, load (share of a processor) and times (seconds) of the seconds for which it measures.", false, false,
		func(ctx context.Context, _ *sdk.CallToolRequest, in sorted) (any, error) {
			return t.measured(ctx, &in)
		})
	add(server, "graph", "The nodes and links as a flowchart of Mermaid.", false, false, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (any, error) {
		return t.Client.Text(ctx, api.GraphPath+"?as=mermaid")
	})
	add(server, "node", "A node with its config, without secrets.", false, false, func(ctx context.Context, _ *sdk.CallToolRequest, in named) (any, error) {
		id, err := t.id(ctx, in.Node)
		if err != nil {
			return nil, err
		}
		var v api.NodeDetail
		return &v, t.get(ctx, "nodes/"+id, &v)
	})
	add(server, "processes", "Processes that wait, and for which nodes, and those that have ended lately. They are recorded from the first call on.", false, false, func(ctx context.Context, _ *sdk.CallToolRequest, in only) (any, error) {
		var v api.Processes
		return &v, t.get(ctx, "processes?only="+url.QueryEscape(in.Only), &v)
	})
	add(server, "process", "A process that has ended, with its packets in time.", false, true, func(ctx context.Context, _ *sdk.CallToolRequest, in identified) (any, error) {
		var v api.Timeline
		return &v, t.get(ctx, "processes/"+url.PathEscape(in.ID), &v)
	})
	add(server, "queues", "What nodes report of themselves: what waits, lags, is held or was lost.", false, false, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (any, error) {
		var v []api.Queue
		return &v, t.get(ctx, "queues", &v)
	})
	add(server, "kinds", "The kinds of nodes, or the text of one.", false, false, func(ctx context.Context, _ *sdk.CallToolRequest, in kindNamed) (any, error) {
		if in.Kind == "" {
			var v []api.Kind
			return &v, t.get(ctx, "kinds", &v)
		}
		var v api.KindDetail
		return &v, t.get(ctx, "kinds/"+url.PathEscape(in.Kind), &v)
	})
}

// inspect adds the tools of the scope inspect.
func (t *Tools) inspect(server *sdk.Server) {
	add(server, "logs", "The last lines of the log.", false, true, func(ctx context.Context, _ *sdk.CallToolRequest, in logged) (any, error) {
		var v []api.LogLine
		return &v, t.get(ctx, "logs?"+url.Values{"level": {cmp.Or(in.Level, "info")}, "node": {in.Node}}.Encode(), &v)
	})
	add(server, "dead", "Dead letters of a source in a file of the sink behind its port error: why each failed, and its message.", false, true, func(ctx context.Context, _ *sdk.CallToolRequest, in deadFrom) (any, error) {
		id, err := t.id(ctx, in.Node)
		if err != nil {
			return nil, err
		}
		var v api.DeadLetters
		return &v, t.get(ctx, fmt.Sprintf("queues/%s/dead?from=%d", id, in.From), &v)
	})
	add(server, "packets", "The last packets of a node: received, sent and answered. They are recorded from the first call on.", false, true, func(ctx context.Context, _ *sdk.CallToolRequest, in named) (any, error) {
		id, err := t.id(ctx, in.Node)
		if err != nil {
			return nil, err
		}
		var v api.NodePackets
		return &v, t.get(ctx, "nodes/"+id+"/packets", &v)
	})
	add(server, "documents", "The documents that the program reads: workflows in YAML.", false, false, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (any, error) {
		var v api.Documents
		return &v, t.get(ctx, "documents", &v)
	})
}

// control adds the tools of the scope control. What changes something asks a person first.
func (t *Tools) control(server *sdk.Server) {
	add(server, "plan", "What drafts would change, and what is wrong with them. Nothing is written.", false, false, func(ctx context.Context, _ *sdk.CallToolRequest, in drafted) (any, error) {
		return t.plan(ctx, in.Drafts)
	})
	add(server, "try", "Sends a packet through drafts, which are not served: nodes that may change something outside fail, except for those that are pinned or allowed. A person is asked, as a draft may read files.", true, true, t.try)
	add(server, "test", "Runs the tests in the documents, with drafts in their place: nodes of kind test. Nodes have their effects, except for those that a test mocks. A person is asked.", true, true, t.test)
	add(server, "apply", "Writes drafts to the documents and serves them, or leaves all as it was. A person is asked.", true, false, t.apply)
	add(server, "send", "Sends a packet to a node, with all its effects, and returns the answer. A person is asked.", true, true, func(ctx context.Context, r *sdk.CallToolRequest, in sent) (any, error) {
		payload, err := json.Marshal(in.Payload)
		if err != nil {
			return nil, err
		}
		id, err := t.id(ctx, in.Node)
		if err == nil {
			err = t.consent(r, fmt.Sprintf("Send a packet to the node %s? It has all effects that any other packet has.\n\n%s", in.Node, payload))
		}
		if err != nil {
			return nil, err
		}
		var v api.Sent
		return &v, t.Client.Send(ctx, http.MethodPost, api.Base+"nodes/"+id+"/packets", api.Sending{Text: string(payload)}, &v)
	})
	add(server, "requeue", "Sends a dead letter of a source, which the tool dead lists, through the workflow again, and takes it out of the file when it has ended. A person is asked.", true, true, t.requeue)
	add(server, "cancel", "Ends a process that waits, of which the tool processes has the id: what it waits for ends with an error. A person is asked.", true, false, func(ctx context.Context, r *sdk.CallToolRequest, in identified) (any, error) {
		if err := t.consent(r, "End the process "+in.ID+"? What it waits for ends with an error."); err != nil {
			return nil, err
		}
		return "It ends.", t.Client.Send(ctx, http.MethodPost, api.Base+"processes/"+url.PathEscape(in.ID)+"/cancel", nil, nil)
	})
	add(server, "reload", "Reads the documents again and serves them. A person is asked.", true, false, func(ctx context.Context, r *sdk.CallToolRequest, _ none) (any, error) {
		if err := t.consent(r, "Read the documents again, and serve them?"); err != nil {
			return nil, err
		}
		return "The program was asked to. See status.", t.Client.Send(ctx, http.MethodPost, api.Base+"reload", nil, nil)
	})
	add(server, "breakpoints", "Holds the next processes that come to these places, while others run. A person is asked.", true, true, t.breakpoints)
	add(server, "held", "The processes that are held at breakpoints, with their payloads.", false, true, t.held)
	add(server, "move", "Lets a process go on that is held. A person is asked if it would do something else than it did.", true, true, t.move)
}

// requeue sends a dead letter again. The person sees the message.
func (t *Tools) requeue(ctx context.Context, r *sdk.CallToolRequest, in deadLetter) (any, error) {
	id, err := t.id(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	var page api.DeadLetters
	if err := t.get(ctx, fmt.Sprintf("queues/%s/dead?from=%d", id, in.At), &page); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(page.Letters, func(l api.DeadLetter) bool { return l.At == in.At && l.Sum == in.Sum })
	if at < 0 || page.Letters[at].Payload == nil {
		return nil, errors.New("the letter is not there: see the tool dead")
	}
	letter, text := api.RequeueLetter{At: in.At, Sum: in.Sum}, page.Letters[at].Payload.Text
	if in.Payload != nil {
		data, err := json.Marshal(in.Payload)
		if err != nil {
			return nil, err
		}
		text = string(data)
		letter.Text = &text
	}
	question := fmt.Sprintf("Send this dead letter of the source %s through the workflow again? It has all effects that any other message has. It has failed with: %s\n\n%s", in.Node, page.Letters[at].Reason, text)
	if err := t.consent(r, question); err != nil {
		return nil, err
	}
	var v []api.Requeued
	return &v, t.Client.Send(ctx, http.MethodPost, api.Base+"queues/"+id+"/dead", api.Requeue{Letters: []api.RequeueLetter{letter}}, &v)
}

// get asks the program.
func (t *Tools) get(ctx context.Context, path string, into any) error {
	return t.Client.Get(ctx, api.Base+path, into)
}

// id returns the id of the node with a name or id.
func (t *Tools) id(ctx context.Context, name string) (string, error) {
	var nodes []api.Node
	if err := t.get(ctx, "nodes", &nodes); err != nil {
		return "", err
	}
	var found []string
	for _, n := range nodes {
		if n.ID == name {
			return n.ID, nil
		}
		if n.Name == name {
			found = append(found, n.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("there is no node %q: see nodes", name)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%d nodes are called %q: name one by its id: %s", len(found), name, strings.Join(found, ", "))
}

// errEnough ends a stream of events.
var errEnough = errors.New("enough")

// measure returns the numbers of nodes over some seconds.
func (t *Tools) measure(ctx context.Context, seconds int) (map[api.MetricsOf]api.NodeMetrics, error) {
	rows := make(map[api.MetricsOf]api.NodeMetrics)
	var nodes []api.MetricsOf
	seen := 0
	err := t.Client.Events(ctx, func(e api.Event) error {
		if e.Type == "hello" {
			var hello api.Hello
			err := json.Unmarshal(e.Data, &hello)
			nodes = hello.Nodes
			return err
		}
		var metrics api.Metrics
		if err := json.Unmarshal(e.Data, &metrics); err != nil {
			return err
		}
		for _, row := range metrics.Rows {
			if row.Node < len(nodes) {
				rows[nodes[row.Node]] = row
			}
		}
		if seen++; seen > seconds {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return nil, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	return rows, nil
}

// measured returns nodes with their numbers, the highest first.
func (t *Tools) measured(ctx context.Context, in *sorted) (any, error) {
	keys := map[string]func(*measured) float64{
		"": func(m *measured) float64 { return m.Load }, "load": func(m *measured) float64 { return m.Load }, "rate": func(m *measured) float64 { return m.Rate },
		"failing": func(m *measured) float64 { return m.Failing }, "p50": func(m *measured) float64 { return m.P50 }, "p99": func(m *measured) float64 { return m.P99 },
	}
	key := keys[in.Sort]
	if key == nil {
		return nil, fmt.Errorf("sort: want load, rate, failing, p50 or p99, got %q", in.Sort)
	}
	var nodes []api.Node
	if err := t.get(ctx, "nodes", &nodes); err != nil {
		return nil, err
	}
	rows, err := t.measure(ctx, min(cmp.Or(max(in.Seconds, 0), 2), 30))
	if err != nil {
		return nil, err
	}
	all := []measured{}
	for _, n := range nodes {
		row := rows[api.MetricsOf{Kind: n.Kind, Namespace: n.Namespace, Name: n.Name}]
		all = append(all, measured{
			ID: n.ID, Name: n.Name, Kind: n.Kind, Namespace: n.Namespace, Place: fmt.Sprintf("%s:%d", n.File, n.Line),
			Packets: row.Packets, Errors: row.Errors, Rate: row.Rate, Failing: row.Failing, Load: row.Load, P50: row.P50, P99: row.P99,
		})
	}
	slices.SortStableFunc(all, func(a, b measured) int { return cmp.Compare(key(&b), key(&a)) })
	return all[:min(cmp.Or(max(in.Limit, 0), 50), len(all))], nil
}

func (t *Tools) plan(ctx context.Context, drafts []api.Document) (*api.Plan, error) {
	var v api.Plan
	return &v, t.Client.Send(ctx, http.MethodPost, api.Base+"plan", api.Drafts{Drafts: drafts}, &v)
}

func (t *Tools) test(ctx context.Context, r *sdk.CallToolRequest, in tested) (any, error) {
	if err := t.consent(r, "Run the tests of the program"+withDrafts(in.Drafts)+"? Nodes have their effects, except for those that a test mocks."); err != nil {
		return nil, err
	}
	var v api.Tests
	return &v, t.Client.Send(ctx, http.MethodPost, api.Base+"tests", api.TestRun{Drafts: append([]api.Document{}, in.Drafts...), Run: in.Run}, &v)
}

func (t *Tools) try(ctx context.Context, r *sdk.CallToolRequest, in api.Trial) (any, error) {
	what := fmt.Sprintf("Send a packet through the program as it is written, to %s%s? It is not served, and nothing outside changes", in.Node, withDrafts(in.Drafts))
	if len(in.Allow) > 0 {
		what += " but by " + strings.Join(in.Allow, ", ")
	}
	if err := t.consent(r, what+".\n\n"+in.Text); err != nil {
		return nil, err
	}
	in.Drafts = append([]api.Document{}, in.Drafts...)
	var v api.Tried
	return &v, t.Client.Send(ctx, http.MethodPost, api.Base+"try", in, &v)
}

// withDrafts says for a person which documents are others than those of the program.
func withDrafts(drafts []api.Document) (text string) {
	for _, d := range drafts {
		text += fmt.Sprintf(", with another %s (%d bytes)", d.File, len(d.Text))
	}
	return text
}

// apply shows a person what would change, and applies it.
func (t *Tools) apply(ctx context.Context, r *sdk.CallToolRequest, in applied) (any, error) {
	p, err := t.plan(ctx, in.Drafts)
	if err != nil {
		return nil, err
	}
	var what strings.Builder
	fmt.Fprintf(&what, "Change the documents of the program, and serve them? %s\n", in.Why)
	for _, d := range in.Drafts {
		fmt.Fprintf(&what, "\nwrites %s (%d bytes)", d.File, len(d.Text))
	}
	for _, c := range p.Changes {
		fmt.Fprintf(&what, "\n%s: %s %s", c.What, c.Kind, c.Name)
		for _, f := range c.Fields {
			fmt.Fprintf(&what, "\n  %s: %s -> %s", f.Path, cmp.Or(f.Before, "nothing"), cmp.Or(f.After, "nothing"))
		}
	}
	for _, f := range p.Findings {
		if f.Finding.Severity == "error" {
			return nil, fmt.Errorf("the drafts have errors, such as %s:%d: %s: see plan", f.Finding.File, f.Finding.Line, f.Finding.Message)
		}
	}
	if err := t.consent(r, what.String()); err != nil {
		return nil, err
	}
	var v api.Applied
	return &v, t.Client.Send(ctx, http.MethodPost, api.Base+"apply", api.Apply{Revision: p.Revision, Drafts: in.Drafts, Why: in.Why}, &v)
}

// keep is how often breakpoints are asked for, so that the program keeps them.
const keep = 5 * time.Second

func (t *Tools) breakpoints(ctx context.Context, r *sdk.CallToolRequest, in held) (any, error) {
	body := api.Breakpoints{List: []api.Breakpoint{}}
	var what strings.Builder
	for _, b := range in.Breakpoints {
		id, err := t.id(ctx, b.Node)
		if err != nil {
			return nil, err
		}
		at, err := api.BreakpointAt(id, b.Point)
		if err != nil {
			return nil, err
		}
		at.When = b.When
		body.List = append(body.List, at)
		fmt.Fprintf(&what, "\n%s %s %s", b.Node, cmp.Or(b.Point, "in"), b.When)
	}
	if len(body.List) > 0 {
		if err := t.consent(r, "Hold the next processes that come here, for up to five minutes each?\n"+what.String()); err != nil {
			return nil, err
		}
	}
	var v api.Debug
	if err := t.Client.Send(ctx, http.MethodPut, api.DebugPath+"/breakpoints", body, &v); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(body.List) > 0 && !t.holding {
		t.holding = true
		t.workers.Go(t.hold)
	}
	return &v, nil
}

// hold asks for the breakpoints until there are none.
func (t *Tools) hold() {
	tick := time.NewTicker(keep)
	defer tick.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
		var v api.Debug
		if err := t.Client.Get(t.ctx, api.DebugPath, &v); err != nil || len(v.Breakpoints)+len(v.Held) == 0 {
			t.mu.Lock()
			t.holding = false
			t.mu.Unlock()
			return // held and breakpoints say why
		}
	}
}

// pace is how often the program is asked whether it holds a process.
const pace = 200 * time.Millisecond

func (t *Tools) held(ctx context.Context, _ *sdk.CallToolRequest, in waited) (any, error) {
	late := time.NewTimer(time.Duration(min(max(in.Seconds, 0), 30) * float64(time.Second)))
	defer late.Stop()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		var v api.Debug
		if err := t.Client.Get(ctx, api.DebugPath, &v); err != nil || len(v.Held) > 0 {
			return &v, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
			return &v, nil
		case <-tick.C:
		}
	}
}

func (t *Tools) move(ctx context.Context, r *sdk.CallToolRequest, in moved) (any, error) {
	body := api.Move{Do: in.Do}
	if in.Payload != "" {
		body.Text = &in.Payload
	}
	if in.Payload != "" || in.Do == "answer" || in.Do == "fail" || in.Do == "drop" {
		if err := t.consent(r, fmt.Sprintf("Let the process that is held go on with something else than it did? %s %s", in.Do, in.Payload)); err != nil {
			return nil, err
		}
	}
	var v api.Debug
	return &v, t.Client.Send(ctx, http.MethodPost, fmt.Sprintf("%s/held/%d", api.DebugPath, in.ID), body, &v)
}
