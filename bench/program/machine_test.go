package program

import (
	"runtime"
	"strings"
	"testing"
)

func TestInspect(t *testing.T) {
	got := Inspect(t.Context())
	if got.Processors != runtime.NumCPU() || got.Go != runtime.Version() || got.Time.IsZero() {
		t.Errorf("got %+v, want the processors, the version, and the time", got)
	}
	if !strings.Contains(got.String(), runtime.Version()) {
		t.Errorf("got %s, want the version in it", got)
	}
	if got := FirstLine(t.Context(), "no-such-program-here"); got != "no no-such-program-here" {
		t.Errorf("got %q", got)
	}
	if got := Content("/no/such/file"); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}
