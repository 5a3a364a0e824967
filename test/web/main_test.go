package web_test

import (
	"context"
	"os"
	"testing"

	"github.com/uniflow-labs/uniflow/cli"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

// asProgram is set for processes of this test binary that are the command uniflow.
const asProgram = "UNIFLOW_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:]))
	}
	leak.Main(m)
}
