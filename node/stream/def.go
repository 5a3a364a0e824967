package stream

import (
	"errors"

	"github.com/uniflow-labs/uniflow/node"
)

// Def returns the kind. It panics if the source is not complete.
func (s Source) Def(o Options) *node.Def {
	return &node.Def{
		Kind: s.Kind, Summary: s.Summary, Doc: s.Doc, Example: s.Example, Config: s.Config,
		Out: []node.Port{{Name: "out", Doc: "A message, or with `batch` a list of them."}},
		New: func(*node.Init) (node.Node, error) { return nil, errors.New("not yet") },
	}
}
