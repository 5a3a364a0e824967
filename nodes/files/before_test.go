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
	text = strings.ReplaceAll(text, ` plain.ndjson"`, " "+filepath.Join(dir, "plain.ndjson")+`"`)
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
	now := 0
	for _, mark := range r.marks {
		if strings.HasPrefix(mark, "v2 ") {
			now++
		}
	}
	if now != 1 {
		t.Errorf("the first commit left %v", r.marks)
	}
	r.close()
	// A short file is known by its fingerprint, also when it was rotated before the first start.
	plain := filepath.Join(dir, "plain.ndjson")
	compress(t, plain, plain+".1.gz")
	if err := os.Remove(plain); err != nil {
		t.Fatal(err)
	}
	r = newReading(t, strings.Replace(config, "{", `{"format": "ndjson", "idle": "0s", `, 1), file.Positions)
	if got := r.read(-1); got != `plain.ndjson.1.gz:41 {"n":40}` {
		t.Errorf("after a rotation: got %s", got)
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
