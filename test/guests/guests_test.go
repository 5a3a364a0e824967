package guests_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/wasm"
	"github.com/uniflow-labs/uniflow/test/guests"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// traps are what an order of no pieces ends with.
var traps = map[string]string{
	"rust":           "trap: uniflow_call: the module trapped: unreachable: panicked at 'attempt to divide by zero', price.rs:",
	"go":             "trap: uniflow_call: the module trapped: unreachable: panic: runtime error: integer divide by zero (in ",
	"assemblyscript": "trap: uniflow_call: the module trapped: integer divide by zero (in ",
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
	for language, trap := range traps {
		t.Run(language, func(t *testing.T) {
			dir := guests.Build(t, filepath.Join("..", ".."), language)
			t.Chdir(dir)
			f := flowtest.New(t, wasm.Defs(stream.Options{})...)
			f.Load("- {kind: wasm, name: n, module: price.wasm, config: {tax: 20}, instances: 2}")
			for _, c := range cases {
				if got := show(f.Send("n", flowtest.Parse(t, c.in))); got != c.want {
					t.Errorf("%s: got %.200s, want %.200s", c.name, got, c.want)
				}
			}
			for range 3 { // with a fresh instance each
				got := f.Send("n", flowtest.Parse(t, `{"id":"a","lines":[{"count":0,"price":1}]}`))
				e := node.Describe(got.Payload.AsError())
				text := e.Code + ": " + node.Message(e)
				if !strings.HasPrefix(text, trap) {
					t.Errorf("got  %s\nwant %s", text, trap)
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
