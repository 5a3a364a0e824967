package constant

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// A YAML is the language of YAML: code is one document, which means the same as in a
// workflow. The zero YAML is ready to use.
type YAML struct{}

// Compile implements [lang.Language].
func (YAML) Compile(code diag.Text, _ lang.Options) (lang.Program, error) {
	roots, list := yamltree.Read("", []byte(code.Code))
	if len(roots) > 1 && len(list) == 0 {
		pos := roots[1].Pos
		return nil, lang.Syntax(code, pos.Line, pos.Col, "YAML: a second document, where one is wanted")
	}
	if len(list) > 0 {
		var findings diag.List
		for _, d := range list {
			place := lang.Syntax(code, max(d.Pos.Line, 1), max(d.Pos.Col, 1), "YAML: %s", d.Msg)
			if d.Hint != "" {
				place = place.WithHint("%s", d.Hint)
			}
			findings.Add(place)
		}
		return nil, findings
	}
	if len(roots) == 0 {
		return program{value.Null()}, nil
	}
	return program{roots[0].ToValue()}, nil
}
