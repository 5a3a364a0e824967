package profile

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// root is the root of the commands of this package.
var root = apptest.Root(func(a *app.App) []*cobra.Command { return []*cobra.Command{Command(a)} })
