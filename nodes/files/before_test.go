package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// TestCheckpointOf4d86ea6 goes on where the checkpoint says that test/before/make has left
// with revision 4d86ea6: only what is added is read.
func TestCheckpointOf4d86ea6(t *testing.T) {
	dir := vfstest.Unpack(t, filepath.Join("testdata", "4d86ea6.tar.gz"))
	text := readText(t, filepath.Join(dir, "files.pos"))
	for _, name := range []string{"plain.ndjson", "packed.ndjson.gz"} { // the copies have other inodes
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		was := readText(t, path+".id")
		if !strings.Contains(text, was) {
			t.Fatalf("the checkpoint has no %s of %s", was, name)
		}
		text = strings.ReplaceAll(text, `"`+was+`"`, `"`+identity(info, path).name()+`"`)
	}
	var file struct{ Positions map[string]string }
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	config := `{"paths": ["` + dir + `/*.ndjson", "` + dir + `/*.gz"]}`
	r := newReading(t, config, file.Positions)
	if got := r.read(-1); got != "" {
		t.Errorf("read again: %s", got)
	}
	f, err := os.OpenFile(filepath.Join(dir, "plain.ndjson"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteString("{\"n\":40}\n"); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	r = newReading(t, config, file.Positions)
	if got := r.read(-1); got != `plain.ndjson:41 {"n":40}` {
		t.Errorf("got %s", got)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
