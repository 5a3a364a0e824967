package std_test

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// refusing are the kinds that may say that the client is to blame, by a status of 4xx, and why: see
// [node.Unusable]. All others must not.
var refusing = map[string]string{
	"auth":     "checks who a client is",
	"ask":      "a reply to no question",
	"form":     "a reply to no question",
	"chat":     "reads requests as they were sent",
	"decode":   "checks what a client has sent",
	"discord":  "reads requests as they were sent",
	"limit":    "refuses what is too much",
	"login":    "checks who a client is",
	"mcp":      "reads requests as they were sent",
	"proxy":    "reads requests as they were sent",
	"router":   "reads requests as they were sent",
	"slack":    "reads requests as they were sent",
	"static":   "reads requests as they were sent",
	"telegram": "reads requests as they were sent",
	"throw":    "the workflow chooses the status",
	"validate": "checks what a client has sent",

	"trail_append": "checks events for a client: what it says of them is public",
	"trail_sink":   "checks events as trail_append does",
	"http":         "the workflow chooses to pass on the status of a service",
	"mcp_call":     "the workflow chooses to pass on the status of a service",
	"sql":          "a constraint of a table refuses the data",
	"sql_sink":     "a constraint of a table refuses the data",
	"websocket":    "the connection that is meant has ended",
}

// TestBlame sends all sorts of payloads to each kind, as [flowtest.Conform] does: a kind that is not
// one of refusing never blames the client.
func TestBlame(t *testing.T) {
	for _, d := range std.Defs("") {
		row, ok := cases[d.Kind]
		if d.Subgraph != node.NoSubgraph || !ok || d.Starts() {
			continue // TestConform fails for a kind without a case
		}
		t.Run(d.Kind, func(t *testing.T) {
			c := row(t)
			if c.Close != nil {
				t.Cleanup(c.Close) // after the flow has ended
			}
			f := flowtest.New(t, std.Defs("")...)
			if c.Prepare != nil {
				c.Prepare(f)
			}
			document := c.Document
			if document == "" {
				document = d.Example
			}
			// An error is answered, and not sent to a probe.
			f.Load(strings.NewReplacer(", error: [{name: failed}]", "", "error: [{name: failed}]", "").Replace(document))
			for _, s := range flowtest.Samples() {
				r := f.Send(nameOf(t, document, d.Kind), s.Payload)
				if !r.IsError() {
					continue
				}
				e := node.Describe(r.Payload.AsError())
				if refusing[d.Kind] == "" && e.Status >= 400 && e.Status < 500 {
					t.Errorf("%s: got %v with status %d: the client is blamed, although the kind is not in the list above", s.Name, e, e.Status)
				}
			}
		})
	}
}

// nameOf returns the name of the first node of a kind in a document.
func nameOf(t *testing.T, document, kind string) string {
	t.Helper()
	_, after, ok := strings.Cut(document, "kind: "+kind)
	_, after, named := strings.Cut(after, "name: ")
	if !ok || !named {
		t.Fatalf("no node of kind %s with a name in %s", kind, document)
	}
	return strings.TrimSpace(after[:strings.IndexAny(after, ",}\n")])
}

// TestMistakes are those of authors: the status is 500, and no attempt follows.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	const none = ""
	for _, row := range []struct {
		name, spec, payload, code string
	}{
		{"a missing argument", "{kind: sql, driver: sqlite, source: ':memory:'}", `["SELECT :b", {"a": 1}]`, "bad_query"},
		{"no statement", "{kind: sql, driver: sqlite, source: ':memory:'}", `7`, "bad_query"},
		{"a statement with a mistake", "{kind: sql, driver: sqlite, source: ':memory:'}", `"SELEC 1"`, none},
		{"a read-only driver", "{kind: sql, driver: internal}", `"DELETE FROM specs"`, "bad_query"},
		{"an expression", "{kind: snippet, language: cel, code: self.nope}", `{}`, none},
		{"a condition", "{kind: if, when: self.nope > 1, ports: {'out[0]': [{name: q}]}}", `{}`, none},
		{"a key of dedupe", "{kind: dedupe, key: self.nope, ports: {out: [{name: q}]}}", `{}`, "key"},
		{"a key of ask", "{kind: ask, key: self.nope, timeout: 1s, ports: {out: [{name: q}]}}", `{}`, "key"},
		{"no trigger that takes parts", "{kind: emit}", `{}`, "no_parts"},
		{"a name of a file", "{kind: file_sink, path: '" + dir + "/${self.nope}'}", `{"a": 1}`, "encode"},
		{"a key of a session", "{kind: session, key: self.nope, ports: {out: [{name: q}]}}", `{}`, "key"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := flowtest.New(t, std.Defs("")...)
			f.Load("- " + strings.Replace(row.spec, "{", "{name: n, ", 1) + "\n- {kind: retry, name: again, threshold: 5, ports: {out: [{name: count}]}}\n- {kind: pipe, name: count, ports: {'out[0]': [{name: tries}], 'out[1]': [{name: n}]}}")
			payload, err := value.ParseJSON([]byte(row.payload))
			if err != nil {
				t.Fatal(err)
			}
			tries := 0
			f.Probe("tries").Do(func(_ node.Process, pkt node.Packet) node.Result {
				tries++
				return node.Answer(pkt.Payload)
			})
			r := f.Send("again", payload)
			if !r.IsError() {
				t.Fatalf("got %v, want an error", r.Payload)
			}
			e := node.Describe(r.Payload.AsError())
			if e.Status != 0 && e.Status != 500 || !e.IsPermanent() || e.Retryable() || e.Public || row.code != e.Code || tries != 1 {
				t.Errorf("got %v with status %d, code %q, permanent: %t, after %d attempts; want 500, code %q, one attempt", e, e.Status, e.Code, e.IsPermanent(), tries, row.code)
			}
		})
	}
}
