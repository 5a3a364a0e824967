// Package flow holds the kinds of workflows that take days: wait and signal, queue and enqueue.
//
// Each kind is one literal, in a file of its name. The package must not know where runs are
// kept, or who sends signals but its own node.
package flow

import (
	"context"
	"fmt"
	"net/http"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// Defs returns the kinds of this package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return []*node.Def{
		enqueueDef(o),
		queueDef(o),
		signalDef(o),
		waitDef(o),
	}
}

// textOf evaluates the expression of a field that makes a text; empty without one. That the text is empty
// is the fault of what has come, and a client may know it; the rest of the errors are of the workflow.
func textOf(ctx context.Context, name string, p lang.Program, payload value.Value) (string, error) {
	if p == nil {
		return "", nil
	}
	v, err := p.Eval(ctx, payload)
	if err != nil {
		return "", node.Unusable(name, fmt.Errorf("%s: %w", name, err))
	}
	text, err := field.KeyText(v)
	if err != nil {
		return "", &node.Error{Err: fmt.Errorf("%s: %w", name, err), Code: name, Status: http.StatusBadRequest, Public: true}
	}
	return text, nil
}
