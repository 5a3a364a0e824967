package cli_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/cli"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A uniflow with a kind of its own. The main function of such a program is one line:
// os.Exit(cli.Main(context.Background(), os.Args[1:], own.Defs)).
func ExampleMain() {
	upper := &node.Def{
		Kind:    "upper",
		Summary: "Turns text into capitals.",
		In:      []node.Port{{Name: "in", Doc: "A text."}},
		Out:     []node.Port{{Name: "out", Doc: "The same in capitals."}},
		Page:    node.Page{Example: "kind: upper\nname: loud\n"},
		New: func(*node.Init) (node.Node, error) {
			return node.Func(func(_ node.Process, in value.Value) (value.Value, error) {
				text, _ := in.AsString()
				return value.String(strings.ToUpper(text)), nil
			}), nil
		},
	}
	own := func(stream.Options) []*node.Def { return []*node.Def{upper} }
	code := cli.Main(context.Background(), []string{"describe", "upper"}, own)
	fmt.Println("exit code", code)
	// Output:
	// upper: Turns text into capitals.
	//
	// In-ports
	//   in
	//       A text.
	//
	// Out-ports
	//   out
	//       The same in capitals.
	//   error
	//       The node's own failure. Without a link it is the answer.
	//
	// Example
	//   kind: upper
	//   name: loud
	// exit code 0
}
