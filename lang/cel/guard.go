package cel

import (
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// maxText is the longest text that replace and join may make, in bytes. Their
// result can be as long as the product of their arguments, two of which may come
// from a client: five megabytes in each would be 25 terabytes.
const maxText = 64 << 20

// A guarded is a call of replace or join that is refused if its result would be
// too long. The cost limit is of no use here: it is charged after the call.
type guarded struct {
	interpreter.InterpretableCall
	length func(args []ref.Val) int // of the result, at most
}

func guard(call interpreter.InterpretableCall) interpreter.InterpretableV2 {
	switch call.Function() {
	case "replace":
		return &guarded{call, replacedLength}
	case "join":
		return &guarded{call, joinedLength}
	}
	return call
}

// Eval implements interpreter.Interpretable.
func (g *guarded) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, g.Exec)
}

// Exec implements interpreter.InterpretableV2. The arguments are evaluated twice;
// they have no effects, and their cost is charged twice.
func (g *guarded) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(g.Args()))
	for i, arg := range g.Args() {
		args[i] = arg.Exec(frame)
	}
	if g.length(args) > maxText {
		return types.NewErrWithNodeID(g.ID(), "%s makes a text of more than %d bytes", g.Function(), maxText)
	}
	return g.InterpretableCall.Exec(frame)
}

func replacedLength(args []ref.Val) int {
	if len(args) < 3 {
		return 0
	}
	s, _ := args[0].(types.String)
	old, _ := args[1].(types.String)
	with, _ := args[2].(types.String)
	if len(with) <= len(old) {
		return len(s)
	}
	// The exact count is only worth its time where the bound is too high.
	if (len(s)+1)*len(with) <= maxText {
		return 0
	}
	return len(s) + strings.Count(string(s), string(old))*(len(with)-len(old))
}

func joinedLength(args []ref.Val) int {
	l, ok := args[0].(traits.Lister)
	if !ok {
		return 0
	}
	var separator types.String
	if len(args) > 1 {
		separator, _ = args[1].(types.String)
	}
	total := 0
	for it := l.Iterator(); it.HasNext() == types.True; {
		s, _ := it.Next().(types.String)
		if total += len(s) + len(separator); total > maxText {
			break
		}
	}
	return total
}
