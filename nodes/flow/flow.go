// Package flow holds the kinds of workflows that take days: wait and signal.
//
// Each kind is one literal, in a file of its name. The package must not know where runs are
// kept, or who sends signals but its own node.
package flow

import (
	"context"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// Defs returns the kinds of this package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return []*node.Def{
		signalDef(o),
		waitDef(o),
	}
}

// textOf evaluates an expression that makes a key; empty without one.
func textOf(ctx context.Context, p lang.Program, payload value.Value) (string, error) {
	if p == nil {
		return "", nil
	}
	v, err := p.Eval(ctx, payload)
	if err != nil {
		return "", err
	}
	return field.KeyText(v)
}
