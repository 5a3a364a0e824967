package reference

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/schema"
)

func sample() *node.Def {
	return &node.Def{
		Kind: "sample", Summary: "Is described.", Page: node.Page{Doc: "A paragraph that\nis wrapped.\n\n- a\n- an item that is longer than a line of a terminal, and goes on in another one, below its text\n\n    kept as it is\n", Example: "kind: sample\n"},
		Config: schema.Fields(
			schema.Bytes("size").Default("8MiB").Range(1, 1<<30).Doc("How much."),
			schema.Duration("wait").Default(90*time.Second).Range(0, float64(time.Hour)),
			schema.Enum("mode", "a", "b").Required(),
			schema.Group("tls", schema.Fields(schema.String("key").Secret().Default("x"))),
			schema.List("routes", schema.Fields(schema.Int("n").Range(0, 65535))),
		),
		In:  []node.Port{{Name: "in", Doc: "What comes."}},
		Out: []node.Port{{Name: "out", Indexes: node.Linked, Doc: "What goes."}},
	}
}

func TestText(t *testing.T) {
	want := `sample: Is described.

A paragraph that is wrapped.

- a
- an item that is longer than a line of a terminal, and goes on in another one,
  below its text

    kept as it is

Fields
  size  size, 1 to 1GiB, default 8MiB
      How much.
  wait  duration, 0s to 1h0m0s, default 1m30s
  mode  a | b, required
  tls  object
      key  string, secret
  routes  list
      n  integer, 0 to 65535

In-ports
  in
      What comes.

Out-ports
  out[0], out[1], …
      What goes.
  error
      The node's own failure. Without a link it is the answer.

Example
  kind: sample
`
	if got := Describe(sample()).Text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDescribeJSON(t *testing.T) {
	got, err := json.Marshal(Describe(sample()).Fields[:3])
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"size","type":"size","default":"8MiB","minimum":"1","maximum":"1GiB","doc":"How much."},` +
		`{"name":"wait","type":"duration","default":"1m30s","minimum":"0s","maximum":"1h0m0s"},` +
		`{"name":"mode","type":"string","required":true,"enum":["a","b"]}]`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWidth(t *testing.T) {
	for _, def := range std.Defs("") {
		text, _, _ := strings.Cut(Describe(def).Text(), "\nExample\n")
		for line := range strings.Lines(text) {
			if len(line) > width+1 && len(strings.Fields(line)) > 3 && !strings.HasPrefix(line, "    ") {
				t.Errorf("%s: got a line of %d bytes: %s", def.Kind, len(line), line)
			}
		}
	}
}

// TestPages finds every kind and code on the pages, once.
func TestPages(t *testing.T) {
	kinds, err := Kinds(std.Defs(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, def := range std.Defs("") {
		if n := strings.Count(kinds, "\n### "+def.Kind+"\n"); n != 1 {
			t.Errorf("%s: got %d sections, want 1", def.Kind, n)
		}
	}
	for _, row := range []string{"\n| `letters` |", "\n| `answer` | `none`, `receipt` |"} { // of all sources, and of all sinks
		if n := strings.Count(kinds, row); n != 1 {
			t.Errorf("got %d rows %q, want 1", n, row)
		}
	}
	if _, err := Kinds([]*node.Def{{Kind: "other"}}); err == nil {
		t.Error("got a page for kinds without a purpose")
	}
	codes := Codes(diag.Catalogue())
	for _, e := range diag.Catalogue() {
		if n := strings.Count(codes, "\n## "+string(e.Code)+"\n"); n != 1 {
			t.Errorf("%s: got %d sections, want 1", e.Code, n)
		}
		if got := Explain(e); !strings.HasPrefix(got, string(e.Code)+": "+e.Title+"\n") {
			t.Errorf("%s: got %q first, want code and title", e.Code, got)
		}
	}
}
