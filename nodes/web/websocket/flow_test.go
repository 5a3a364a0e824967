package websocket_test

import (
	"net/http"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/nodes/web"
)

func TestMain(m *testing.M) { leak.Main(m) }

// kinds are those that the tests of this package use.
func kinds() []*node.Def {
	languages := builtin.Languages()
	return append(core.Defs(core.Options{Languages: languages, Language: "cel"}), web.Defs(stream.Options{Languages: languages, Language: "cel"})...)
}

// A world is an engine that serves one listener.
type world struct {
	*flowtest.Flow
	t      testing.TB
	addr   string
	socket node.Node // of kind websocket, of the latest generation
	client *http.Client
}

// serve starts a workflow.
func serve(t testing.TB, document string) *world {
	t.Helper()
	w := &world{t: t}
	defs := append(kinds(), partDef)
	for _, def := range defs {
		if def.Kind == "websocket" {
			make := def.New
			def.New = func(init *node.Init) (node.Node, error) {
				n, err := make(init)
				w.socket = n
				return n, err
			}
		}
	}
	w.Flow = flowtest.New(t, defs...)
	w.Serve(document)
	w.addr, w.client = w.Address(), w.Client()
	return w
}
