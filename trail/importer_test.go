package trail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// newImporterBench returns an importer of 100 events of 10 users in two buckets, each
// with an id.
func newImporterBench(t *testing.T, ctx context.Context) (*importer, *vfstest.FS) {
	t.Helper()
	cat, fsys := newCatalogBench(t)
	opt, err := Options{fs: fsys, Times: Times{Any: true}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range 100 {
		e := importedEvent(i)
		fmt.Fprintf(&lines, `{"user": %q, "time": %d, "event": %q, "id": %q}`+"\n", e.User, e.Time, e.Name, e.ID)
	}
	im := &importer{
		env:   importEnv{between: func(f func()) { f() }, admit: newAdmission(cat.state, maxBuckets).admitSegments, replace: cat.replace},
		files: cat.files, state: cat.state, opt: opt, ctx: ctx,
		how:  ImportOptions{ID: "id", Stdin: strings.NewReader(lines.String())},
		file: ImportFile{File: "-"},
		seen: seen{log: opt.Log},
	}
	return im, fsys
}

func importedEvent(i int) event.Event {
	e := ev(fmt.Sprint("u", i%10), day(int64(i/50*60))+int64(i), "view")
	e.ID = fmt.Sprint(i)
	return e
}

// wantNothing checks that an import has left neither events nor files.
func wantNothing(t *testing.T, im *importer, fsys *vfstest.FS) {
	t.Helper()
	if rows := rowsIn(t, im.state); rows != 0 || im.file.Taken {
		t.Errorf("got %d events, want none", rows)
	}
	for _, name := range fsys.Names() {
		if !strings.Contains(name, "MANIFEST") {
			t.Errorf("%s is left", name)
		}
	}
}

func TestImporter(t *testing.T) {
	im, fsys := newImporterBench(t, t.Context())
	if err := im.run(); err != nil {
		t.Fatal(err)
	}
	if rows := rowsIn(t, im.state); rows != 100 || im.file.Rows != 100 || !im.file.Taken {
		t.Errorf("got %d events and %+v, want 100", rows, im.file)
	}
	if names := fsys.Names(); len(names) != 4 { // two segments, and the manifest twice
		t.Errorf("got files %q", names)
	}
}

// TestImporterMeetsAppend has some of the events be appended while the file is read, and
// further ones while these are taken out.
func TestImporterMeetsAppend(t *testing.T) {
	im, _ := newImporterBench(t, t.Context())
	b := newRunBuilder(im.files.log)
	calls := 0
	im.env.between = func(f func()) {
		if calls++; calls <= 2 {
			commit := im.state.nextCommit()
			sn := im.state.current.Load()
			made, err := b.build(record{commit: commit, chunks: [][]byte{requestOf(t, importedEvent(calls), importedEvent(90+calls)).chunk}}, sn.schema, sn)
			if err != nil {
				t.Fatal(err)
			}
			im.state.publish(commit, nil, sn.schema, made)
		}
		f()
	}
	if err := im.run(); err != nil {
		t.Fatal(err)
	}
	if rows := rowsIn(t, im.state); rows != 100 || im.file.Rows != 96 || im.file.Duplicates != 4 || calls != 3 {
		t.Errorf("got %d events and %+v after %d tries, want 100 of which 4 were appended", rows, im.file, calls)
	}
}

// TestImporterFails has each of the operations on files fail once.
func TestImporterFails(t *testing.T) {
	broken := errors.New("broken")
	for _, op := range []vfstest.Op{vfstest.Create, vfstest.Open, vfstest.Write, vfstest.Sync, vfstest.Rename, vfstest.SyncDir} {
		for nth := 1; ; nth++ {
			im, fsys := newImporterBench(t, t.Context())
			left := nth
			fsys.SetFail(func(did vfstest.Op, name string) error {
				if did == op && !strings.Contains(name, "MANIFEST") && name != "store" {
					if left--; left == 0 {
						return broken
					}
				}
				return nil
			})
			err := im.run()
			if left > 0 {
				if nth == 1 || err != nil {
					t.Errorf("%s: got %v, and %d of them", op, err, nth-1)
				}
				break
			}
			if !errors.Is(err, broken) {
				t.Errorf("%s %d: got %v, want %v", op, nth, err, broken)
			}
			wantNothing(t, im, fsys)
		}
	}
}

// TestImporterIsRefused has the store not take the segments, and the manifest not be
// written.
func TestImporterIsRefused(t *testing.T) {
	broken := errors.New("broken")
	im, fsys := newImporterBench(t, t.Context())
	im.env.admit = func([]*source, event.Schema) (event.Schema, error) { return nil, broken }
	if err := im.run(); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	wantNothing(t, im, fsys)

	im, fsys = newImporterBench(t, t.Context())
	failing(fsys, vfstest.Write, 1, broken)
	if err := im.run(); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	wantNothing(t, im, fsys)
}

// TestImporterEndsWhileBusy closes the store during an import.
func TestImporterEndsWhileBusy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	im, fsys := newImporterBench(t, ctx)
	im.how.Progress = func(p ImportProgress) {
		if p.Phase == "merge" {
			cancel()
		}
	}
	if err := im.run(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	wantNothing(t, im, fsys)
}
