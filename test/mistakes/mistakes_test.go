// Package mistakes measures what a check sees. Each .txtar file has documents of one family
// of kinds, as a user could have written them, each with one mistake: its first line says
// which. A line that ends in # ! is one where the mistake may be reported; the mark is
// taken away before the check. A document has been seen if a finding is at such a line.
//
// The file of the same name with .golden has the findings, and go test -update writes it. A document
// that the check is silent about says in a line "# silent: …" why the mistake cannot be seen.
package mistakes

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) { leak.Main(m) }

var update = flag.Bool("update", false, "write the files .golden")

// The measure: how many documents there are at least, and of how many nothing may be said, or no
// finding at the mistake may have a hint.
const (
	least      = 141
	mostSilent = 20
	mostBare   = 8
)

var (
	mark   = regexp.MustCompile(`(?m) # !$`)
	reason = regexp.MustCompile(`(?m)^# silent: .+`)
)

func TestMistakes(t *testing.T) {
	archives, err := filepath.Glob("*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("found %d archives, error %v", len(archives), err)
	}
	for i := range archives {
		archives[i], err = filepath.Abs(archives[i])
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(workplace(t))
	documents := 0
	var silent, bare []string
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		family := strings.TrimSuffix(filepath.Base(path), ".txtar")
		var golden bytes.Buffer
		for _, f := range archive.Files {
			documents++
			name := family + "/" + f.Name
			found := check(t, f.Name, mark.ReplaceAll(f.Data, nil))
			fmt.Fprintf(&golden, "-- %s --\n", f.Name)
			for _, d := range found {
				fmt.Fprintf(&golden, "%v: %s\n", d.Severity, d.Error())
				if d.Hint != "" {
					fmt.Fprintf(&golden, "\t%s\n", strings.ReplaceAll(d.Hint, "\n", "\n\t"))
				}
			}
			seen, hint := judge(found, f.Data)
			switch said := reason.Match(f.Data); {
			case seen && said:
				t.Errorf("%s: it is seen, so say no longer that it is silent", name)
			case !seen && !said:
				t.Errorf("%s: silent: nothing is found at the mistake; mend the check, or say why with \"# silent: …\"", name)
			}
			switch {
			case !seen:
				silent = append(silent, name)
			case !hint:
				bare = append(bare, name)
			}
		}
		compare(t, strings.TrimSuffix(path, ".txtar")+".golden", golden.Bytes())
	}
	t.Logf("%d documents, %d silent, %d without a hint", documents, len(silent), len(bare))
	if documents < least {
		t.Errorf("got %d documents, want at least %d", documents, least)
	}
	if len(silent) > mostSilent {
		t.Errorf("got %d documents that the check is silent about, want at most %d:\n%s", len(silent), mostSilent, strings.Join(silent, "\n"))
	}
	if len(bare) > mostBare {
		t.Errorf("got %d documents without a hint, want at most %d:\n%s", len(bare), mostBare, strings.Join(bare, "\n"))
	}
}

// workplace makes the folder that the documents are written for: orders.csv, and data/a.csv.
func workplace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"orders.csv", filepath.Join("data", "a.csv")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("id,customer\n1,ann\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// check returns what uniflow check finds in a document.
func check(t *testing.T, file string, data []byte) diag.List {
	t.Helper()
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		t.Fatal(err)
	}
	found := engine.CheckAll(uniflow.Source{Documents: []spec.Document{{File: file, Data: data}}})
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return found
}

// judge reports whether a finding is at the mistake of a document, and whether one of these
// has a hint.
func judge(found diag.List, data []byte) (seen, hint bool) {
	lines := bytes.Split(data, []byte("\n"))
	for _, d := range found {
		if at := d.Pos.Line; at > 0 && at <= len(lines) && mark.Match(lines[at-1]) {
			seen, hint = true, hint || d.Hint != ""
		}
	}
	return seen, hint
}

func compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after := txtar.Parse(want), txtar.Parse(got)
	had := make(map[string]string)
	for _, f := range before.Files {
		had[f.Name] = string(f.Data)
	}
	for _, f := range after.Files {
		if had[f.Name] != string(f.Data) {
			t.Errorf("%s: %s: got\n%swant\n%s", filepath.Base(path), f.Name, f.Data, had[f.Name])
		}
		delete(had, f.Name)
	}
	for name := range had {
		t.Errorf("%s: %s is of no document: write it again with -update", filepath.Base(path), name)
	}
}
