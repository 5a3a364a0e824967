package kinds

import (
	"context"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// engine runs a document.
func engine(tb testing.TB, doc string) *uniflow.Engine {
	tb.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	list, err := e.Apply(tb.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
	if err != nil || list.HasErrors() {
		tb.Fatal(err, list)
	}
	return e
}

// sent returns what sends a payload to the node n and returns the answer.
func sent(tb testing.TB, doc string, in value.Value) func() (value.Value, error) {
	e, ctx := engine(tb, doc), context.WithoutCancel(tb.Context())
	return func() (value.Value, error) {
		out, _, err := e.Run(ctx, "n", in)
		return out, err
	}
}
