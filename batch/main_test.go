package batch_test

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// rounds is n, or long when the environment asks for the whole fault matrix.
func rounds(n, long int) int {
	if os.Getenv("BATCH_FAULTS") == "full" {
		return long
	}
	return n
}

// logger writes to w, for tests that look at messages.
func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
