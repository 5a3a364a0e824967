package dialogue_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

func TestMain(m *testing.M) { leak.Main(m, servertest.Stop) }

func newFlow(t testing.TB) *flowtest.Flow { return flowtest.New(t, std.Defs("")...) }
