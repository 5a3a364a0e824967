package parquet

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/records/hostile"
)

func TestMain(m *testing.M) { leak.Main(m) }

// readAll reads all columns of a file, up to so many entries of each row group, and returns
// the entries of the last column.
func readAll(t *testing.T, data []byte, most int) (entries int, err error) {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for leaf := range f.Leaves {
		c := f.Column(leaf)
		entries = 0
		for group, rows := range f.Groups {
			if rows == 0 {
				continue
			}
			if err := c.Start(group); err != nil {
				return entries, err
			}
			f.Batch()
			for n := 0; n < most; {
				run, err := c.Next(1000)
				if err == io.EOF {
					break
				} else if err != nil {
					return entries, err
				}
				check(t, c, &run)
				n += run.N
				entries += run.N
			}
		}
	}
	return entries, nil
}

// check checks what a run promises.
func check(t *testing.T, c *Column, run *Run) {
	t.Helper()
	if run.N < 1 || run.N > 1000 || (run.Defs == nil) != (c.MaxDef == 0) || (run.Reps == nil) != (c.MaxRep == 0) {
		t.Fatalf("got %d entries, %d and %d levels", run.N, len(run.Defs), len(run.Reps))
	}
	present := run.N
	for _, l := range run.Defs {
		if int(l) != c.MaxDef {
			present--
		}
	}
	values := run.Len()
	if run.Dict != nil {
		values = len(run.Codes)
		for _, code := range run.Codes {
			if int(code) >= run.Dict.Len() {
				t.Fatalf("got the code %d of %d", code, run.Dict.Len())
			}
		}
	}
	if run.Present != present || values != present {
		t.Fatalf("got %d values, %d are said to be present, want %d", values, run.Present, present)
	}
}

// FuzzColumns reads the columns of files that other programs wrote, changed.
func FuzzColumns(f *testing.F) {
	files, err := filepath.Glob("../../../trail/internal/tabular/testdata/parquet/*.parquet")
	if err != nil || len(files) == 0 {
		f.Fatal(err, len(files))
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, file := range hostile.Tables() {
		if len(file.Data) < 1<<20 {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readAll(t, data, 100_000); err != nil && strings.Contains(err.Error(), "runtime error") {
			t.Errorf("got %v: our own code must not run into it", err)
		}
	})
}

// TestHostile reads files that are made to break readers.
func TestHostile(t *testing.T) {
	for _, file := range hostile.Tables() {
		hostile.Bounded(t, file, func() {
			entries, err := readAll(t, file.Data, 1<<20)
			if file.Name == "a column twice" || file.Name == "a list of 2^30 nulls" {
				return // for the caller to find
			}
			hostile.Equal(t, file, entries, 0, err)
		})
	}
}
