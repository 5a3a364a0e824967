package node_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/node"
)

func TestClip(t *testing.T) {
	f := func(text string, bytes int, want string) {
		t.Helper()
		if got := node.Clip(text, bytes); got != want {
			t.Errorf("Clip(%q, %d): got %q, want %q", text, bytes, got, want)
		}
	}
	f("tea", 3, "tea")
	f("teas", 3, "tea…")
	f("", 0, "")
	f("tea", 0, "…")
	f("añb", 2, "a…") // not half a character
	f("añb", 3, "añ…")
	f("\x80\x80\x80", 2, "…")
}
