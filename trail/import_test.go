package trail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func csvOf(events []event.Event) string {
	var b strings.Builder
	b.WriteString("user,time,event,key,country,price,vip\n")
	for _, e := range events {
		fmt.Fprintf(&b, "%s,%d,%s,%s,%s,%s,%s\n", e.User, e.Time, e.Name, e.ID, e.Properties[0].Value, e.Properties[1].Value, e.Properties[2].Value)
	}
	return b.String()
}

func TestImport(t *testing.T) {
	dir := t.TempDir()
	lot := rand.New(rand.NewPCG(1, 2))
	s := open(t, dir, quiet())
	first, second := draw(lot, 5000, "a"), draw(lot, 3000, "b")
	var phases []string
	opt := ImportOptions{ID: "key", TimeUnit: "ms", Progress: func(p ImportProgress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
	}}
	one := write(t, "one.csv", csvOf(first))
	r, err := s.Import(t.Context(), []string{one}, opt)
	if err != nil || !r.Files[0].Taken || r.Files[0].Rows != 5000 || r.Rows() != 5000 {
		t.Fatalf("got %+v and %v, want 5000 rows", r, err)
	}
	if got := fmt.Sprint(phases); got != "[read merge done]" {
		t.Errorf("got the phases %v", got)
	}
	wantCount(t, s, 5000)
	add(t, s, second[:100]...)
	two := write(t, "two.csv", csvOf(append(first[:50:50], second...)))
	r, err = s.Import(t.Context(), []string{two, one}, opt)
	if err != nil || r.Files[0].Rows != 2900 || r.Files[0].Duplicates != 150 || r.Files[1].Rows != 0 || !r.Files[1].Taken || r.Files[1].Duplicates != 5000 {
		t.Fatalf("got %+v and %v, want 2900 rows and 150 duplicates, then 5000 duplicates", r, err)
	}
	wantCount(t, s, 8000)
	if got := s.Schema().Type("price"); got != event.Int {
		t.Errorf("got the type %v of price, want an integer", got)
	}
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 8000)
	wantSound(t, dir)
	names, err := os.ReadDir(filepath.Join(dir, tmpDir))
	if err != nil || len(names) > 0 {
		t.Errorf("got %v and %v in the folder for temporary files, want nothing", names, err)
	}
}

func TestImportRefuses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	add(t, s, ev("a", base, "view", prop("price", event.IntOf(1))))
	bad := write(t, "bad.csv", "user,time,event\na,2026-01-05T00:00:00Z,x\n,2026-01-05T00:00:00Z,x\na,never,x\n")
	_, err := s.Import(t.Context(), []string{bad}, ImportOptions{MaxBad: 1})
	wrong, ok := errors.AsType[*BadRowsError](err)
	if !ok || wrong.Bad != 2 || wrong.First.Line != 3 || wrong.File != bad {
		t.Errorf("got %v, want two bad rows from line 3 on", err)
	}
	wantCount(t, s, 1)
	r, err := s.Import(t.Context(), []string{bad}, ImportOptions{MaxBad: 2})
	if err != nil || r.Files[0].Rows != 1 || r.Files[0].Bad != 2 || len(r.Files[0].BadRows) != 2 {
		t.Errorf("got %+v and %v, want a row and two bad ones", r, err)
	}
	other := write(t, "other.csv", "user,time,event,price\na,2026-01-05T00:00:00Z,x,cheap\n")
	if _, err := s.Import(t.Context(), []string{other}, ImportOptions{}); err == nil {
		t.Error("got no error for a price that is text")
	}
	if _, err := s.Import(t.Context(), []string{"nowhere.csv"}, ImportOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want a missing file", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Import(ctx, []string{other}, ImportOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancelled import", err)
	}
	wantCount(t, s, 2)
	p, err := NewEventParser(ImportOptions{User: "who"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Parse([]byte(`{"who":"a","time":1767571200,"event":"x","n":3}`))
	if err != nil || e.User != "a" || e.Time != base || len(e.Properties) != 1 {
		t.Errorf("got %+v and %v", e, err)
	}
}

// TestImportBesideAppends imports a file while the same events, with their ids, are
// appended: each is kept once.
func TestImportBesideAppends(t *testing.T) {
	lot := rand.New(rand.NewPCG(3, 2))
	events := draw(lot, 4000, "x")
	path := write(t, "same.csv", csvOf(events))
	opt := quiet()
	opt.FlushRows = 700
	s := open(t, t.TempDir(), opt)
	done := make(chan error, 1)
	s.calls.Go(func() {
		_, err := s.Import(context.Background(), []string{path}, ImportOptions{ID: "key", TimeUnit: "ms"})
		done <- err
	})
	for at := 0; at < len(events); at += 20 {
		add(t, s, events[at:at+20]...)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 4000)
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 4000)
	if got := s.Info().Rows; got != 4000 {
		t.Errorf("got %d rows, want 4000", got)
	}
}

func TestExport(t *testing.T) {
	lot := rand.New(rand.NewPCG(1, 2))
	s := open(t, t.TempDir(), quiet())
	add(t, s, draw(lot, 3000, "a")...)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, s, draw(lot, 500, "b")...)
	add(t, s, ev("gone", base, "view"))
	if _, err := s.DeleteUser(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	n, err := s.Export(t.Context(), &file, nil)
	if err != nil || n != 3500 {
		t.Fatalf("got %d rows and %v, want 3500", n, err)
	}
	copied := open(t, t.TempDir(), quiet())
	if _, err := copied.Import(t.Context(), []string{write(t, "all.parquet", file.String())}, ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{nil, {"view"}, {"cart", "signup"}} {
		wantCount(t, copied, count(t, s, names...), names...)
	}
	var again bytes.Buffer
	if _, err := copied.Export(t.Context(), &again, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file.Bytes(), again.Bytes()) {
		t.Errorf("got another file of %d bytes from what the first of %d gave", again.Len(), file.Len())
	}
}

// TestImportKilled has queries and Verify say of a first import that was killed that it
// did not end, until the store is opened for writing.
func TestImportKilled(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	read, unfinished := func() []string {
		r := open(t, dir, Options{ReadOnly: true})
		return ask(t, r, countQuery()).Stats.Warnings
	}, func() bool {
		report, err := Verify(t.Context(), dir, nil)
		if err != nil || !report.OK() {
			t.Fatal(report, err)
		}
		return report.Unfinished
	}
	if got := read(); len(got) > 0 || unfinished() {
		t.Errorf("got %q and %v of an empty store, want nothing", got, unfinished())
	}
	// While an import runs, the folder has what a kill of it would leave.
	during := 0
	file := write(t, "one.csv", csvOf(draw(rand.New(rand.NewPCG(1, 2)), 100, "a")))
	if _, err := s.Import(t.Context(), []string{file}, ImportOptions{ID: "key", TimeUnit: "ms", Progress: func(p ImportProgress) {
		if during++; p.Phase == "merge" {
			if got := read(); !slices.Equal(got, []string{UnfinishedImport}) || !unfinished() {
				t.Errorf("got %q and %v during an import, want %q", got, unfinished(), UnfinishedImport)
			}
		}
	}}); err != nil || during == 0 {
		t.Fatal(err, during)
	}
	if got := read(); len(got) > 0 || unfinished() {
		t.Errorf("got %q and %v after an import, want nothing", got, unfinished())
	}
}
