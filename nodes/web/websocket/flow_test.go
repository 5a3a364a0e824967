package websocket_test

import (
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

// serve starts a workflow with a listener.
func serve(t testing.TB, document string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, append(kinds(), partDef)...)
	f.Serve(document)
	return f
}
