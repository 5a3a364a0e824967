package flow

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// root is the root of the commands of this package.
var root = apptest.Root(Commands)

const (
	goodSpec  = "kind: snippet\nname: pong\nlanguage: text\ncode: pong\n"
	wrongSpec = "kind: snippet\nname: pong\nlanguage: text\nkode: pong\n"
)
