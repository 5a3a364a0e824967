//go:build !race

package arch

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// TestCodes checks that some code outside of package diag uses every diagnostic
// code, so that no code is documented and never reported.
func TestCodes(t *testing.T) {
	var codes []string
	used := make(map[string]bool)
	for _, f := range load(t) {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				for _, s := range n.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && n.Tok == token.CONST && f.pkg == "diag" && strings.HasPrefix(v.Names[0].Name, "Code") {
						codes = append(codes, v.Names[0].Name)
					}
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "diag" {
					used[n.Sel.Name] = true
				}
			}
			return true
		})
	}
	if len(codes) < 50 {
		t.Errorf("found only %d codes", len(codes))
	}
	for _, code := range codes {
		if !used[code] {
			t.Errorf("no code reports diag.%s: report it or remove it", code)
		}
	}
}
