//go:build !race

package arch

import (
	"flag"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/redact"
)

var update = flag.Bool("update", false, "write internal/redact/words.txt")

// TestFixedWords checks that package redact knows the words of the program's own texts. It is
// not exact, so that a new message needs no change there: what a list lacks is hidden where it is a
// secret, as any other is.
func TestFixedWords(t *testing.T) {
	word := regexp.MustCompile(`[a-z]+`)
	found := make(map[string]bool)
	support := partOf("test")
	for _, f := range load(t) {
		if part := partOf(f.pkg); f.test || part == support || parts[part].title == "benchmarks and the guard" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !strings.Contains(strings.TrimSpace(text), " ") || strings.Contains(text, "\n") {
				return true
			}
			for _, w := range word.FindAllString(strings.ToLower(text), -1) {
				if len(w) >= redact.LeastInText {
					found[w] = true
				}
			}
			return true
		})
	}
	words := slices.Sorted(maps.Keys(found))
	if *update {
		if err := os.WriteFile(filepath.Join("..", "redact", "words.txt"), []byte(strings.Join(words, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	var missing []string
	for _, w := range words {
		if !redact.IsFixed(w) {
			missing = append(missing, w)
		}
	}
	if len(missing)*50 > len(words) {
		t.Errorf("%d of %d words of messages are missing, such as %q: run go test ./internal/arch -run FixedWords -update", len(missing), len(words), missing[:10])
	}
}
