package node_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

func TestMain(m *testing.M) { leak.Main(m) }

// kinds are the standard kinds, which the examples use in addition to their own.
func kinds() []*node.Def { return std.Defs("") }
