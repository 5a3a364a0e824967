package spell_test

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/spell"
)

func TestNearest(t *testing.T) {
	kinds := []string{"snippet", "router", "listener", "if", "switch", "in", "out", "method", "path", "port"}
	f := func(word, want string) {
		t.Helper()
		if got, ok := spell.Nearest(word, kinds); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	f("snipet", "snippet")
	f("Snippet", "snippet")
	f("ruoter", "router")
	f("lsitenr", "listener")
	f("io", "if")
	f("ni", "in")
	f("meth", "method")
	f("output", "out")
	f("routers", "router")
	f("swithc", "switch")
	f("xyzzy", "")
	f("", "")
	f("o", "")
	f(strings.Repeat("a", 1000), "")
}
