package std_test

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

// TestInitBeforeOpen sends to nodes that have not opened, from their workflow at the port init.
func TestInitBeforeOpen(t *testing.T) {
	for _, spec := range []string{"kind: cache", "kind: dedupe, key: self", "kind: limit, rate: 1/s"} {
		f := flowtest.New(t, std.Defs("")...)
		list, err := f.Apply("- {" + spec + ", name: n, ports: {init: [{name: warm, port: in}], out: [{name: end}]}}\n" +
			"- {kind: snippet, name: warm, language: text, code: hi, ports: {out: [{name: n, port: in}]}}\n- {kind: nop, name: end}\n")
		if err == nil || !strings.Contains(err.Error(), node.ErrNotOpen.Error()) {
			t.Errorf("%s: got %v, %v", spec, list, err)
		}
	}
}
