package brokers_test

import (
	"os"
	"testing"

	"github.com/uniflow-labs/uniflow/test/brokers"
)

func TestMain(m *testing.M) {
	programMain()
	code := m.Run()
	brokers.Clean()
	os.Exit(code)
}
