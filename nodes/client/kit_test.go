package client

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// process is the process of a client that waits.
type process struct{ node.Process }

func (process) HasClient() bool { return true }

func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatalf("test data %s: %v", text, err)
	}
	return v
}

func unlimited(int) error { return nil }
