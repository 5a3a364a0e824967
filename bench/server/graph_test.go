package server

import (
	"strings"
	"testing"
)

// TestPing looks at the text; that it is a program is checked where the engine
// may be imported, by the tests of bench.
func TestPing(t *testing.T) {
	got := Ping("8123")
	for _, want := range []string{"port: 8123\n", "path: /ping\n", "code: pong\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("got %s, want %q once", got, want)
		}
	}
	if got := Answering("1", "pang"); !strings.Contains(got, "code: pang\n") {
		t.Errorf("got %s, want the answer", got)
	}
}
