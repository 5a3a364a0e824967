package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// measureTaps is P12: a chain of ten nodes without observers, in the engine as it
// is and in an engine built without the check for observers.
func measureTaps(ctx context.Context, l *lab, line Line) ([]Row, error) {
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
	row := Row{Line: line, Figures: "/s"}
	row.Ratio(1e9/with, 1e9/without)
	row.Notes = []string{fmt.Sprintf("a process of ten hops %.1f ns, %.1f ns in an engine built without the check for observers", with, without)}
	return []Row{row}, nil
}

// withoutTaps returns an overlay in which no process checks for observers.
func (l *lab) withoutTaps(ctx context.Context) (string, error) {
	out, err := program.Toolchain{}.Do(ctx, "list", "-f", "{{.Dir}}", module+"/"+enginePkg)
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
	cut := l.File("process-without-taps.go")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: cut}})
	if err != nil {
		return "", err
	}
	overlay := l.File("without-taps.json")
	return overlay, errors.Join(os.WriteFile(cut, text, 0o600), os.WriteFile(overlay, replace, 0o600))
}

// check is the if statement that checks for observers, at the top level of a
// function that gofmt has formatted.
var check = regexp.MustCompile(`(?m)^\tif [^\n]*\.watched\.Load\(\);[^\n]*\{\n(?:\t\t[^\n]*\n)*\t\}\n`)

// cutTaps removes the check for observers from a source file.
func cutTaps(source []byte) ([]byte, error) {
	found := check.FindAllIndex(source, -1)
	if len(found) != 1 {
		return nil, fmt.Errorf("%d checks for observers instead of one", len(found))
	}
	return slices.Concat(source[:found[0][0]], source[found[0][1]:]), nil
}
