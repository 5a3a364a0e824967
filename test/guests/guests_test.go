package guests_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/wasm"
	"github.com/uniflow-labs/uniflow/test/guests"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// languages are those of docs/wasm.md.
var languages = []struct {
	name, block, file string
	trap              string // what an order of no pieces ends with
}{
	{"Rust", "rust", "price.rs", "trap: uniflow_call: the module trapped: unreachable: panicked at 'attempt to divide by zero', price.rs:"},
	{"Go", "go", "price.go", "trap: uniflow_call: the module trapped: unreachable: panic: runtime error: integer divide by zero (in "},
	{"AssemblyScript", "ts", "assembly/price.ts", "trap: uniflow_call: the module trapped: integer divide by zero (in "},
}

var cases = []struct{ name, in, want string }{
	{"one line", `{"id":"a-1","lines":[{"count":2,"price":50}]}`, `{"average":60,"id":"a-1","total":120}`},
	{"several", `{"id":"a-2","lines":[{"sku":"tea","count":1,"price":10},{"count":3,"price":5},{"count":0,"price":7}],"note":null,"paid":true}`, `{"average":7,"id":"a-2","total":30}`},
	{"text", `{"id":"\"ä\\\n€😀","lines":[{"count":1,"price":10}]}`, `{"average":12,"id":"\"ä\\\n€😀","total":12}`},
	{"deep", `{"id":"a","more":[[[{"x":[1,2.5,-3e2,{}]},[]]]],"lines":[{"count":1,"price":10}]}`, `{"average":12,"id":"a","total":12}`},
	{"no lines", `{"id":"a-3","lines":[]}`, "empty 422 true: the order has no lines"},
	{"large", `{"id":"` + strings.Repeat("x", 1<<20) + `","lines":[{"count":1,"price":10}]}`, `{"average":12,"id":"` + strings.Repeat("x", 1<<20) + `","total":12}`},
}

func TestGuests(t *testing.T) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			root, err := filepath.Abs(filepath.Join("..", ".."))
			if err != nil {
				t.Fatal(err)
			}
			dir := guests.Build(t, root, l.name)
			same(t, filepath.Join(dir, l.file), guests.Block(t, root, l.name, l.block))
			t.Chdir(dir)
			page(t, root)
			f := flowtest.New(t, wasm.Defs(stream.Options{})...)
			f.Load("- {kind: wasm, name: n, module: price.wasm, config: {tax: 20}, instances: 2, timeout: 30s}")
			for _, c := range cases {
				if got := show(f.Send("n", flowtest.Parse(t, c.in))); got != c.want {
					t.Errorf("%s: got %.200s, want %.200s", c.name, got, c.want)
				}
			}
			for range 3 { // with a fresh instance each
				got := f.Send("n", flowtest.Parse(t, `{"id":"a","lines":[{"count":0,"price":1}]}`))
				e := node.Describe(got.Payload.AsError())
				text := e.Code + ": " + node.Message(e)
				if !strings.HasPrefix(text, l.trap) {
					t.Errorf("got  %s\nwant %s", text, l.trap)
				}
			}
			if got := show(f.Send("n", flowtest.Parse(t, cases[0].in))); got != cases[0].want {
				t.Errorf("after that: got %s, want %s", got, cases[0].want)
			}
			if _, err := f.Apply("- {kind: wasm, name: n, module: price.wasm, config: {tax: much}}"); err == nil || !strings.Contains(err.Error(), "the module refuses its config: ") {
				t.Errorf("got %v, want that the config is refused", err)
			}
		})
	}
}

func show(r node.Response) string {
	if r.IsError() {
		e := node.Describe(r.Payload.AsError())
		return fmt.Sprintf("%s %d %t: %s", e.Code, e.Status, e.Public, node.Message(e))
	}
	b, err := sorted(r.Payload).AppendJSON(nil)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// sorted returns a map with the fields in the order of the cases.
func sorted(v value.Value) value.Value {
	m := value.Map()
	for _, name := range []string{"average", "id", "total"} {
		f, _ := v.Get(name)
		m = m.With(name, f)
	}
	return m
}

// same checks that a page shows a file as it is.
func same(t *testing.T, file, shown string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != shown {
		t.Errorf("docs/wasm.md does not show %s as it is", file)
	}
}

// page runs what docs/wasm.md begins with, in the working folder.
func page(t *testing.T, root string) {
	t.Helper()
	workflow := guests.Block(t, root, "", "yaml")
	same(t, filepath.Join(root, "kinds", "wasm", "prices.yaml"), workflow)
	if err := os.WriteFile("prices.yaml", []byte(workflow), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	system := app.System()
	system.Stdin, system.Stdout, system.Stderr = strings.NewReader(""), &out, &out
	cli.Main(t.Context(), []string{"test", "prices.yaml"}, system)
	want := strings.Split(guests.Block(t, root, "", "text"), "…")
	for i := range want {
		want[i] = regexp.QuoteMeta(want[i])
	}
	if !regexp.MustCompile("^" + strings.Join(want, ".*") + "$").MatchString(out.String()) {
		t.Errorf("got %s", &out)
	}
}
