package query

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// FuzzParse parses any bytes without a panic. A query that
// parses passes Check, which does not change it.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.txt"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("got %d files, %v", len(paths), err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			for _, doc := range strings.FieldsFunc(strings.NewReplacer("\n---\n", "\x00", "\n====\n", "\x00", "\n----\n", "\x00").Replace(string(data)), func(r rune) bool { return r == 0 }) {
				f.Add([]byte(doc))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := Parse("f", data)
		if err != nil {
			var list Errors
			if !errors.As(err, &list) || len(list) == 0 || list[0].Msg == "" || q != nil {
				t.Fatalf("got %v, %#v, want Errors with messages", q, err)
			}
			return
		}
		again, err := Parse("f", data)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Check(); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(q, again) {
			t.Fatalf("got %+v after another check, want %+v", again, q)
		}
	})
}
