package trail

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

func TestAppendIsSeen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	add(t, s, ev("a", base, "view"), ev("b", base, "view", prop("price", event.IntOf(3))))
	wantCount(t, s, 2)
	add(t, s, ev("a", day(40), "cart", prop("price", event.FloatOf(2.5))))
	wantCount(t, s, 3)
	if got := s.Schema().Type("price"); got != event.Float {
		t.Errorf("got the type %v, want a number", got)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 3)
	info := s.Info()
	if len(info.Segments) != 2 || info.MemoryRows != 0 || info.Users != 2 || info.Rows != 3 {
		t.Errorf("got %+v, want 2 segments with 3 rows of 2 users", info)
	}
	add(t, s, ev("c", day(1), "cart"))
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 4)
	wantCount(t, s, 2, "cart")
	if got := len(s.Info().Segments); got != 2 {
		t.Errorf("got %d segments after a compaction, want 2", got)
	}
	wantSound(t, dir)
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	lot := rand.New(rand.NewPCG(1, 2))
	s, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		add(t, s, draw(lot, 100, string(rune('a'+i)))...)
	}
	if err := s.AppendMarked(t.Context(), nil, "queue", []byte("17")); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 2000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), draw(lot, 1, "x")); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v of a closed store, want ErrClosed", err)
	}
	if _, err := s.Query(t.Context(), countQuery(), QueryOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v of a closed store, want ErrClosed", err)
	}
	wantSound(t, dir)
	s = open(t, dir, quiet())
	wantCount(t, s, 2000)
	if got := string(s.Mark("queue")); got != "17" {
		t.Errorf("got the mark %q, want 17", got)
	}
}

func TestDuplicatesAreKeptOnce(t *testing.T) {
	dir := t.TempDir()
	lot := rand.New(rand.NewPCG(1, 2))
	events := draw(lot, 500, "x")
	s, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, events...)
	add(t, s, events...)
	wantCount(t, s, 500)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, s, events[:100]...)
	add(t, s, slices.Concat(events[50:150], []event.Event{ev("zoe", base, "view"), ev("zoe", base, "view")})...)
	wantCount(t, s, 502) // without an id both are events
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, quiet())
	add(t, s, events...)
	wantCount(t, s, 502)
}

func TestRefusals(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	add(t, s, ev("a", base, "view", prop("price", event.IntOf(1))))
	for name, tt := range map[string]struct {
		bad  event.Event
		want string
	}{
		"no user":      {ev("", base, "x"), "no user"},
		"no name":      {ev("a", base, ""), "no event name"},
		"early":        {ev("a", event.MinTime-1, "x"), "years 1 to 9999"},
		"late":         {ev("a", event.MaxTime+1, "x"), "years 1 to 9999"},
		"other type":   {ev("a", base, "x", prop("price", event.StringOf("y"))), `property "price" is an integer, and comes as a string`},
		"type in call": {ev("a", base, "x", prop("a", event.StringOf("y")), prop("a", event.IntOf(1))), `property "a"`},
		"no property":  {ev("a", base, "x", prop("", event.IntOf(1))), "property name"},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.Append(t.Context(), []event.Event{ev("a", base, "fine"), tt.bad})
			refused, ok := errors.AsType[*RejectedError](err)
			if !ok || len(refused.Refused) != 1 || refused.Refused[0].Index != 1 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want event 1 refused for %q", err, tt.want)
			}
		})
	}
	wantCount(t, s, 1)
}

func TestSecondWriter(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, quiet())
	_, err := Open(dir, quiet())
	locked, ok := errors.AsType[*LockedError](err)
	if !ok || locked.PID != os.Getpid() || time.Since(locked.Since) > time.Hour {
		t.Errorf("got %v, want a *LockedError with this process", err)
	}
}

func TestReaders(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, Options{ReadOnly: true}); !errors.Is(err, ErrNoStore) {
		t.Fatalf("got %v for an empty folder, want ErrNoStore", err)
	}
	lot := rand.New(rand.NewPCG(1, 2))
	s := open(t, dir, quiet())
	add(t, s, draw(lot, 100, "a")...)
	r := open(t, dir, Options{ReadOnly: true})
	wantCount(t, r, 100)
	if err := r.Append(t.Context(), draw(lot, 1, "x")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("got %v, want ErrReadOnly", err)
	}
	want := int64(100)
	for i := range 30 {
		add(t, s, draw(lot, 10, string(rune('b'+i)))...)
		want += 10
		if i%7 == 3 {
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if i%11 == 5 {
			if err := s.Compact(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		wantCount(t, r, want-10)
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCount(t, r, want)
	}
}

func TestDeleteUser(t *testing.T) {
	for _, when := range []string{"memory", "flushed", "both"} {
		t.Run(when, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(dir, quiet())
			if err != nil {
				t.Fatal(err)
			}
			flush := func() {
				if err := s.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			add(t, s, ev("a", base, "view"), ev("b", base, "view"))
			if when != "memory" {
				flush()
			}
			if when == "both" {
				add(t, s, ev("a", day(1), "view"))
			}
			if _, err := s.DeleteUser(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			wantCount(t, s, 1)
			add(t, s, ev("a", day(2), "view"))
			wantCount(t, s, 2)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, quiet())
			wantCount(t, s, 2)
			if err := s.Compact(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			wantCount(t, s, 2)
			if info := s.Info(); info.Deleted != 0 || info.Rows != 2 {
				t.Errorf("got %d users to delete and %d rows after a compaction, want 0 and 2", info.Deleted, info.Rows)
			}
			wantSound(t, dir)
		})
	}
}

// TestDeletedStayDeleted deletes users while others append, so that runs from
// before and after a deletion are merged all the time.
func TestDeletedStayDeleted(t *testing.T) {
	opt := quiet()
	opt.FlushRows = 200
	dir := t.TempDir()
	s := open(t, dir, opt)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := int64(0); ctx.Err() == nil; i++ {
				if err := s.Append(t.Context(), []event.Event{ev("other", day(1)+i, "stays")}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 150 {
		user := fmt.Sprint("gone", i)
		add(t, s, ev(user, day(1), "gone"))
		if _, err := s.DeleteUser(t.Context(), user); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			wantCount(t, s, 0, "gone")
		}
	}
	cancel()
	wg.Wait()
	wantCount(t, s, 0, "gone")
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 0, "gone")
}

// TestNoQuery has an error for a nil query.
func TestNoQuery(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	if _, err := s.Query(t.Context(), nil, QueryOptions{}); err == nil {
		t.Error("got no error of Query")
	}
	if _, err := s.Explain(nil, QueryOptions{}); err == nil {
		t.Error("got no error of Explain")
	}
}

func TestDropBefore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	for i := range int64(60) {
		add(t, s, ev("a", day(i), "view"))
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.DropBefore(t.Context(), event.Time(day(40)), DropOptions{}); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 20)
	if got := s.Info().Rows; got >= 60 {
		t.Errorf("got %d rows, want the old segment gone", got)
	}
	// Older events are refused, and so are the other events of the append.
	err := s.Append(t.Context(), []event.Event{ev("a", day(50), "view"), ev("a", day(3), "view")})
	if refused, ok := errors.AsType[*RejectedError](err); !ok || len(refused.Refused) != 1 || refused.Refused[0].Index != 1 {
		t.Errorf("got %v, want the second event refused", err)
	}
	wantCount(t, s, 20)
	add(t, s, ev("a", day(50), "view"))
	wantCount(t, s, 21)
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Info().Rows; got != 21 {
		t.Errorf("got %d rows after a compaction, want 21", got)
	}
	wantSound(t, dir)
}

// TestDropBeforeTheFuture tries to empty a store by a wrong year.
func TestDropBeforeTheFuture(t *testing.T) {
	opt := quiet()
	opt.now = func() time.Time { return event.Time(day(10)) }
	s := open(t, t.TempDir(), opt)
	add(t, s, ev("a", day(9), "view"))
	if err := s.DropBefore(t.Context(), event.Time(day(11)), DropOptions{}); !errors.Is(err, ErrFuture) {
		t.Errorf("got %v, want ErrFuture", err)
	}
	wantCount(t, s, 1)
	if err := s.DropBefore(t.Context(), event.Time(day(11)), DropOptions{Future: true}); err != nil {
		t.Error(err)
	}
	wantCount(t, s, 0)
}

func TestKeep(t *testing.T) {
	var today atomic.Int64 // read by the store's own goroutines
	opt := quiet()
	opt.now = func() time.Time { return event.Time(day(today.Load())) }
	opt.Retention = 24 * time.Hour * 50
	dir := t.TempDir()
	s := open(t, dir, opt)
	for i := range int64(100) {
		today.Store(i)
		add(t, s, ev("a", day(i), "view"))
	}
	today.Store(100)
	wantCount(t, s, 50)
	if err := s.Append(t.Context(), []event.Event{ev("a", day(49), "view")}); !isRefused(err) {
		t.Errorf("got %v of an event that is too old, want it refused", err)
	}
	today.Store(120)
	wantCount(t, s, 30)
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 30)
	if got := s.Info().Rows; got != 30 {
		t.Errorf("got %d rows, want 30", got)
	}
}

func TestUnknownFilesAreDeleted(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, ev("a", base, "view"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(dir, segmentDir, "000000000099-5.seg")
	foreign := filepath.Join(dir, "loader", "journal")
	if err := errors.Join(os.WriteFile(stray, []byte("x"), 0o600), os.MkdirAll(filepath.Dir(foreign), 0o700), os.WriteFile(foreign, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, quiet())
	if _, err := os.Stat(stray); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want the file gone", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
	if got := s.files.next.Load(); got <= 99 {
		t.Errorf("got %d as the next number, want one that was never used", got)
	}
	wantSound(t, dir)
}

// TestInfoParts holds that Info reports what takes the bytes of segments.
func TestInfoParts(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	add(t, s, draw(rand.New(rand.NewPCG(1, 8)), 2000, "a")...)
	if got := s.Info().Parts; len(got) > 0 {
		t.Errorf("events in memory: got parts %v", got)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	info := s.Info()
	total, layouts := int64(0), make(map[string]string)
	for i, p := range info.Parts {
		total += p.Bytes
		layouts[p.Name] = p.Layout
		if i > 0 && p.Bytes > info.Parts[i-1].Bytes {
			t.Errorf("%s: got %d bytes after %d", p.Name, p.Bytes, info.Parts[i-1].Bytes)
		}
	}
	if total <= info.Bytes/2 || total > info.Bytes {
		t.Errorf("got parts of %d bytes, want most of %d", total, info.Bytes)
	}
	if layouts["times"] == "" || layouts["column country"] != "digits" || layouts["dictionary country"] != "" {
		t.Errorf("got layouts %v", layouts)
	}
}
