package glob

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// tree makes files, and links from NAME to TARGET, in a folder that the test works in.
func tree(t *testing.T, files []string, links ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, path := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(links); i += 2 {
		if err := os.Symlink(links[i+1], links[i]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExpand(t *testing.T) {
	tree(t, []string{"a.csv", "d/b.csv", "d/e/c.csv", "d/e/c.txt", "d/e/f/d.csv", "d/{x}/y.csv", "other/z.csv"},
		"d/loop", "..", "d/link.csv", "../a.csv", "linked", "d/e")
	f := func(pattern string, want ...string) {
		t.Helper()
		if got := Expand(pattern); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
	}
	f("d/**/*.csv", "d/b.csv", "d/e/c.csv", "d/e/f/d.csv", "d/link.csv", "d/{x}/y.csv")
	f("./d/**/c.*", "d/e/c.csv", "d/e/c.txt")
	f("**/[cd].csv", "d/e/c.csv", "d/e/f/d.csv")
	f("**/e/**/d.csv", "d/e/f/d.csv")
	f("**/**/d.csv", "d/e/f/d.csv")
	f("d/e/**", "d/e/c.csv", "d/e/c.txt", "d/e/f/d.csv")
	f("d/**/{x}/*.csv", "d/{x}/y.csv")
	f("linked/**/*.csv", "linked/c.csv", "linked/f/d.csv")
	f("link*/**/d.csv", "linked/f/d.csv")
	f("d/*/**/a.csv", "d/loop/a.csv")
	f("d/**.csv", "d/b.csv", "d/link.csv")
	f("none/**/*.csv")
	f("none.csv", "none.csv")
	whole, err := filepath.Abs("d")
	if err != nil {
		t.Fatal(err)
	}
	f(whole+"/**/b.csv", whole+"/b.csv")
}

func TestFolders(t *testing.T) {
	tree(t, []string{"d/b.csv", "d/e/c.csv", "other/z.csv"}, "d/loop", "..")
	got := Folders([]string{"d/**/*.csv", "d/*.csv", "o*/*.csv", "d/**/e/*.csv"})
	if want := []string{"d", "d/e", "other"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Folders([]string{"d/**"}), []string{"d", "d/e"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMatch(t *testing.T) {
	f := func(pattern, path string, want bool) {
		t.Helper()
		if got := Match(pattern, path); got != want {
			t.Errorf("%s of %s: got %v, want %v", pattern, path, got, want)
		}
	}
	f("d/**", "d", true)
	f("d/**", "d/e/f", true)
	f("d/**", "e", false)
	f("d/**/f", "d/f", true)
	f("d/**/f", "d/e/f/g", false)
	f("/d/**/f", "/d/e/f", true)
	f("d/*", "d/e", true)
	f("d/*", "d/e/f", false)
}

// TestCost finds a file at the end of a chain of folders. With several **, the work must grow with
// the number of folders, and not with its power: a chain four times as long takes about four times as many steps.
func TestCost(t *testing.T) {
	steps := func(depth int) float64 {
		path := strings.Repeat("x/", depth) + "a.csv"
		tree(t, []string{path})
		return testing.AllocsPerRun(3, func() {
			if got := Expand("**/x/**/x/**/*.csv"); !slices.Equal(got, []string{path}) {
				t.Fatalf("got %q, want %q", got, path)
			}
		})
	}
	if few, many := steps(25), steps(100); many > 8*few {
		t.Errorf("got %.0f allocations for 25 folders and %.0f for 100, want them to grow alike", few, many)
	}
}

func TestMissing(t *testing.T) {
	tree(t, []string{"data/a.csv", "b.csv"})
	f := func(path string, later bool, want, wantHint string) {
		t.Helper()
		why, hint, ok := Missing(path, later)
		if why != want || ok != (want != "") || !strings.HasPrefix(hint, wantHint) {
			t.Errorf("%s: got %q, %q, want %q, %q", path, why, hint, want, wantHint)
		}
	}
	f("data/*.csv", false, "", "")
	f("data/**/*.csv", false, "", "")
	f("b.csv", false, "", "")
	f("date/*.csv", false, `the folder of "date/*.csv" is not there`, `did you mean "data"?`)
	f("date/*.csv", true, `the folder of "date/*.csv" is not there`, `did you mean "data"?`)
	f("data/*.tsv", false, `no file matches "data/*.tsv" now`, "check the pattern")
	f("data/*.tsv", true, "", "")
	f("*.{csv,tsv}", false, `no file matches "*.{csv,tsv}": braces are themselves here`, "write a pattern for each")
	f("data/**.csv", false, `the ** of "data/**.csv" is one *: it stands for folders only between slashes`, "write data/**/*.csv")
	f("~/a.csv", false, `"~/a.csv" begins with ~, which only a shell replaces`, "write the whole path, or bind HOME in env: {{ .HOME }}/a.csv")
	f("bb.csv", false, `there is no file "bb.csv" now`, `did you mean "b.csv"?`)
	f("data", false, `"data" is a folder`, "write data/* for")
	f("data", true, `"data" is a folder`, "write data/* for")
	f("none.csv", true, "", "")
}
