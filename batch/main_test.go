package batch_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// logger writes to w, for tests that check messages.
func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
