package machine_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/bench/machine"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestInspect(t *testing.T) {
	got := machine.Inspect(t.Context())
	if got.Processors != runtime.NumCPU() || got.Go != runtime.Version() || got.Time.IsZero() {
		t.Errorf("got %+v, want the processors, the version, and the time", got)
	}
	if !strings.Contains(got.String(), runtime.Version()) {
		t.Errorf("got %s, want the version in it", got)
	}
	if got := machine.FirstLine(t.Context(), "no-such-program-here"); got != "no no-such-program-here" {
		t.Errorf("got %q", got)
	}
	if got := machine.Content("/no/such/file"); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}
