package diagram_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/diagram"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

const document = `
- kind: listener
  name: web
  protocol: http
  port: 0
  ports: {out: routes}
- kind: router
  name: routes
  routes:
    - {method: GET, path: /, port: 'out[0]'}
    - {method: POST, path: /, port: 'out[1]'}
  ports: {'out[0]': page, 'out[1]': order, error: failed}
- {kind: snippet, name: page, language: text, code: hello}
- kind: block
  name: order
  specs:
    - {kind: snippet, name: read, language: cel, code: self.body, ports: {out: keep}}
    - {kind: pipe, name: keep}
  inbounds: {in: read}
  outbounds: {out: [{name: keep, port: 'out[0]'}]}
  ports: {out: done}
- {kind: nop, name: done}
- {kind: nop, name: failed}
- {kind: test, name: orders/ok, ports: {'out[0]': only tested, 'out[1]': judged}}
- {kind: pipe, name: only tested, ports: {'out[0]': page}}
- {kind: assert, name: judged, expect: self == null}
- {kind: nop, name: elsewhere, namespace: billing}
`

func outline(t *testing.T, text string) uniflow.Outline {
	t.Helper()
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Shutdown(t.Context()) }() // it serves nothing
	o, list := engine.Outline(uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte(text)}}})
	if list.HasErrors() {
		t.Fatal(list)
	}
	return o
}

func names(d diagram.Diagram) (names []string) {
	for _, n := range d.Nodes {
		names = append(names, n.Name+" "+string(n.Group))
	}
	return names
}

func all(string) bool { return true }

func TestOf(t *testing.T) {
	o := outline(t, document)
	closed := diagram.Of(o, "default", nil)
	want := []string{"web trigger", "routes control", "page code", "order control", "done control", "failed control"}
	if got := names(closed); !slices.Equal(got, want) {
		t.Errorf("closed: got %q, want %q", got, want)
	}
	open := diagram.Of(o, "default", all)
	want = slices.Insert(want, 4, "read code", "keep control")
	if got := names(open); !slices.Equal(got, want) {
		t.Errorf("open: got %q, want %q", got, want)
	}
	order, read, done := open.Nodes[3], open.Nodes[4], open.Nodes[6]
	if !order.Open || read.Outer != 3 || read.X <= order.X || read.Y <= order.Y || read.X+read.Width >= order.X+order.Width || read.Y+read.Height >= order.Y+order.Height {
		t.Errorf("got %+v in %+v", read, order)
	}
	if done.X < order.X+order.Width {
		t.Errorf("got %+v after %+v", done, order)
	}
	if got := names(diagram.Of(o, "billing", all)); !slices.Equal(got, []string{"elsewhere control"}) {
		t.Errorf("billing: got %q", got)
	}
	if d := diagram.Of(o, "none", all); len(d.Nodes)+len(d.Links) > 0 || d.Nodes == nil || d.Links == nil {
		t.Errorf("none: got %+v, want lists without elements", d)
	}
}

// TestServed draws the same of what an engine serves.
func TestServed(t *testing.T) {
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if d := diagram.Of(engine.Describe(), "default", all); len(d.Nodes) > 0 {
		t.Errorf("got %+v before anything is served", d)
	}
	if _, err := engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte(document)}}}); err != nil {
		t.Fatal(err)
	}
	got, want := diagram.Of(engine.Describe(), "default", all), diagram.Of(outline(t, document), "default", all)
	if !bytes.Equal(got.Mermaid(), want.Mermaid()) || got.Width != want.Width || got.Height != want.Height {
		t.Errorf("got %s, want %s", got.Mermaid(), want.Mermaid())
	}
}

func TestMermaid(t *testing.T) {
	d := diagram.Of(outline(t, document), "default", all)
	want := `flowchart LR
  n0(["web<br>listener"])
  n1["routes<br>router"]
  n2["page<br>snippet"]
  subgraph n3["order"]
    n4["read<br>snippet"]
    n5["keep<br>pipe"]
  end
  n6["done<br>nop"]
  n7["failed<br>nop"]
  n0 --> n1
  n1 -->|"out[0]"| n2
  n1 -->|"out[1]"| n3
  n1 -.->|"error"| n7
  n3 --> n6
  n4 --> n5
`
	if got := string(d.Mermaid()); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// TestHostile has names that are markup, too long, not Latin, or cannot be printed.
func TestHostile(t *testing.T) {
	name := `<img onerror="x"> & "]; click n0 'y' ` + "`#`" + strings.Repeat("긴 이름", 15)
	o := outline(t, "- kind: nop\n  name: '"+strings.ReplaceAll(name, "'", "''")+"'\n- {kind: nop, name: \"\\x01\\e[31m\\u202etxt\"}\n")
	d := diagram.Of(o, "default", nil)
	decoder := xml.NewDecoder(bytes.NewReader(d.SVG(`"<&>`)))
	var elements, texts []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements = append(elements, token.Name.Local)
		case xml.CharData:
			texts = append(texts, string(token))
		}
	}
	if slices.Contains(elements, "img") || !slices.Contains(texts, name+": nop, flow.yaml:1:3") {
		t.Errorf("got the elements %q and the texts %q", elements, texts)
	}
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.HasSuffix(text, "…") && len([]rune(text)) <= 21 }) {
		t.Errorf("got the texts %q, want the name cut", texts)
	}
	if !slices.Contains(texts, `\x01\x1b[31m\u202etxt`) {
		t.Errorf("got the texts %q, want what cannot be printed escaped", texts)
	}
	got := strings.ReplaceAll(string(d.Mermaid()), "<br>", "")
	if strings.ContainsAny(got, "<>&`\x01\u202e") || strings.Count(got, `"`) != 4 {
		t.Errorf("got %s", got)
	}
}
