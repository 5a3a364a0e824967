package deadletter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func letter(node string, i int) string {
	return fmt.Sprintf(`{"message": "node \"f\" (w.yaml:1:1): no", "node": %q, "data": {"body": %d}, "letter": {"failed": "f", "place": "w.yaml:1:1"}}`, node, i)
}

func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func bodies(t *testing.T, path string, from int64, most int) (found string, next int64) {
	t.Helper()
	page, err := Read(t.Context(), path, "a", from, most)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range page.Letters {
		found += l.Field("data", "body") + l.Reason() + " "
	}
	return found, page.Next
}

// TestPages reads the letters of one source, by pages.
func TestPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.ndjson")
	write(t, path, letter("a", 1), "", "torn {", letter("b", 2), "  "+letter("a", 3), letter("a", 4))
	first, next := bodies(t, path, 0, 2)
	second, end := bodies(t, path, next, 2)
	if first != "1no 3no " || second != "4no " || end != 0 {
		t.Errorf("got %q, then %q and %d", first, second, end)
	}
}

// TestRemove takes letters out while a sink appends: nothing else moves, and nothing is lost.
func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.ndjson")
	const there, more = 20, 200
	var lines []string
	for i := range there {
		lines = append(lines, letter("a", i))
	}
	write(t, path, lines...)
	var sink sync.WaitGroup
	defer sink.Wait()
	sink.Go(func() {
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Error(err)
			return
		}
		for i := range more {
			_, err = fmt.Fprintln(out, letter("a", there+i))
			if err != nil {
				t.Error(err)
			}
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	})
	page, err := Read(t.Context(), path, "a", 0, there)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second one has it, too: %v", err)
	}
	for _, l := range page.Letters {
		found, err := f.At(l.At, l.Sum())
		if err != nil || found.Field("data", "body") != l.Field("data", "body") {
			t.Fatal(found, err)
		}
		if err := f.Remove(found); err != nil {
			t.Fatal(err)
		}
		if err := f.Remove(found); !errors.Is(err, ErrGone) {
			t.Errorf("got %v, want that it is gone", err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	sink.Wait()
	var want strings.Builder
	for i := range more {
		fmt.Fprintf(&want, "%dno ", there+i)
	}
	if got, _ := bodies(t, path, 0, 2*more); got != want.String() {
		t.Errorf("got %s", got)
	}
}

// TestAnother does not take a letter for another one: the file was replaced, or the place is none.
func TestAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.ndjson")
	write(t, path, letter("a", 1), letter("a", 2))
	page, err := Read(t.Context(), path, "a", 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	first, second := page.Letters[0], page.Letters[1]
	write(t, path, letter("a", 3))
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{first.At, second.At, first.At + 1, -1, 1 << 40} {
		if l, err := f.At(at, first.Sum()); !errors.Is(err, ErrGone) {
			t.Errorf("%d: got %v, %v", at, l, err)
		}
	}
	if err := f.Remove(second); !errors.Is(err, ErrGone) {
		t.Errorf("got %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := bodies(t, path, 0, 9); got != "3no " {
		t.Errorf("got %s", got)
	}
	if _, err := Open(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if names, err := filepath.Glob(path + ".none*"); err != nil || len(names) > 0 {
		t.Errorf("a file that is not there has left %q, %v", names, err)
	}
}
