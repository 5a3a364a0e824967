package client

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
)

func TestMain(m *testing.M) { leak.Main(m) }

// process is the process of a client that waits.
type process struct{ node.Process }

func (process) HasClient() bool { return true }

func unlimited(int) error { return nil }
