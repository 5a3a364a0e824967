package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const folder = "../../deploy"

// read returns a file of the folder.
func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// field returns what comes after a prefix in a line of a text.
func field(t *testing.T, text []byte, prefix string) string {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("no line begins with %q", prefix)
	return ""
}
