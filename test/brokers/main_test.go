package brokers_test

import (
	"os"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/test/brokers"
)

func TestMain(m *testing.M) {
	code := leak.Run(m)
	brokers.Clean()
	os.Exit(code)
}
