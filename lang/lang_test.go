package lang_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestThrownAsPayload(t *testing.T) {
	got := value.ErrorMap(value.Error(&lang.Thrown{Message: "no stock", Status: 409, Code: "stock", Public: true}))
	want := `{"message":"no stock","code":"stock","status":409,"public":true}`
	if got.String() != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if got := value.ErrorMap(value.Error(&lang.Thrown{Message: "x"})).String(); got != `{"message":"x"}` {
		t.Errorf("got %v, want only the message", got)
	}
}

func TestTimeoutIsADeadline(t *testing.T) {
	err := error(&lang.Timeout{After: time.Second})
	if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "timed out after 1s" {
		t.Errorf("got %v", err)
	}
}

func TestStopped(t *testing.T) {
	if err := lang.Stopped(t.Context()); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	cause := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := lang.Stopped(ctx); !errors.Is(err, cause) || err.Error() != "evaluation stopped: shutting down" {
		t.Errorf("got %v, want the cause", err)
	}
}
