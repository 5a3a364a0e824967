package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/gotest"
	"github.com/uniflow-labs/uniflow/bench/report"
)

// measureTaps is P12: a chain of ten nodes without observers, in the engine as it
// is and in an engine built without the check for observers.
func measureTaps(ctx context.Context, l *lab, line report.Line) ([]report.Row, error) {
	overlay, err := l.withoutTaps(ctx)
	if err != nil {
		return nil, err
	}
	const name = "^BenchmarkObserver$/^observed=false$"
	got, err := l.benchTurns(ctx, bench{pkg: enginePkg, name: name, cpu: 1}, bench{pkg: enginePkg, name: name, cpu: 1, overlay: overlay})
	if err != nil {
		return nil, err
	}
	with, without := of(got[0]["Observer/observed=false"], "ns/op"), of(got[1]["Observer/observed=false"], "ns/op")
	row := report.Row{Line: line, Figures: "/s"}
	row.Ratio(1e9/with, 1e9/without)
	row.Notes = []string{fmt.Sprintf("a process of ten hops %.1f ns, %.1f ns in an engine built without the check for observers", with, without)}
	return []report.Row{row}, nil
}

// withoutTaps returns an overlay in which no process checks for observers.
func (l *lab) withoutTaps(ctx context.Context) (string, error) {
	out, err := gotest.Toolchain{}.Do(ctx, "list", "-f", "{{.Dir}}", module+"/"+enginePkg)
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "process.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	if text, err = cutTaps(text); err != nil {
		return "", fmt.Errorf("%s: %w", source, err)
	}
	cut := l.file("process-without-taps.go")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: cut}})
	if err != nil {
		return "", err
	}
	overlay := l.file("without-taps.json")
	return overlay, errors.Join(os.WriteFile(cut, text, 0o600), os.WriteFile(overlay, replace, 0o600))
}

// cutTaps removes the check for observers from a source file: the if statement that
// begins with the load of a field called watched.
func cutTaps(source []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []ast.Stmt
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(ast.Stmt); ok && checksTaps(s) {
			found = append(found, s)
		}
		return true
	})
	if len(found) != 1 {
		return nil, fmt.Errorf("got %d checks for observers, want one", len(found))
	}
	from, to := set.Position(found[0].Pos()).Offset, set.Position(found[0].End()).Offset
	return slices.Concat(source[:from], source[to:]), nil
}

func checksTaps(s ast.Stmt) bool {
	cond, ok := s.(*ast.IfStmt)
	if !ok || cond.Init == nil {
		return false
	}
	asks := false
	ast.Inspect(cond.Init, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			load, ok := call.Fun.(*ast.SelectorExpr)
			if ok && load.Sel.Name == "Load" {
				field, ok := load.X.(*ast.SelectorExpr)
				asks = asks || ok && field.Sel.Name == "watched"
			}
		}
		return true
	})
	return asks
}
