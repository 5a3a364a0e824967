package node_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/node"
)

func TestReadPage(t *testing.T) {
	f := func(file, doc, example string) {
		t.Helper()
		if got := node.ReadPage(file); got != (node.Page{Doc: doc, Example: example}) {
			t.Errorf("%q: got %+v", file, got)
		}
	}
	f("", "", "")
	f("Does it.\n", "Does it.", "")
	f("Does it.\n\n```yaml\nkind: k\n```\n", "Does it.", "kind: k\n")
	f("Like\n\n```yaml\na: 1\n```\n\nor so.\n\n```yaml\nkind: k\n```\n", "Like\n\n```yaml\na: 1\n```\n\nor so.", "kind: k\n")
}
