package suite

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Mock replaces a node by code. Make one with [NewMock].
type Mock struct {
	Node, File string
	program    lang.Program
}

// NewMock compiles the code of a mock. Its language is the one of the file's extension:
// that of a constant, such as JSON, is what the node always sends.
func NewMock(name, file string, code []byte, languages *lang.Set) (*Mock, error) {
	lines := make([]diag.Pos, 1+strings.Count(string(code), "\n"))
	for i := range lines {
		lines[i] = diag.Pos{File: file, Line: i + 1, Col: 1}
	}
	language := lang.OfExtension(filepath.Ext(file))
	program, err := languages.Compile(language, diag.NewText(string(code), file, lines[0], lines), lang.Options{Timeout: 10 * time.Second})
	return &Mock{name, file, program}, err
}

// Replaces reports whether the mock is for a node. It names the node, with its
// namespace or without.
func (m *Mock) Replaces(ref node.Ref) bool {
	return ref.Name != "" && (m.Node == ref.Name || m.Node == ref.Namespace+"/"+ref.Name)
}

func (m *Mock) node(init *node.Init) node.Node {
	sends := len(init.OutLinks) > 0
	return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
		out, err := m.program.Eval(p.Context(), value.ErrorMap(pkt.Payload))
		switch {
		case err != nil:
			return node.Fail(err)
		case sends:
			return node.Send(0, out)
		}
		return node.Answer(out)
	})
}
