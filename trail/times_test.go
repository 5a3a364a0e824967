package trail

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

func date(year int) time.Time { return time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC) }

func at(year int) int64 { return event.Millis(date(year)) }

// clocked are options of a store for which it is the middle of 2026.
func clocked(times Times) Options {
	opt := quiet()
	opt.Times = times
	opt.now = func() time.Time { return date(2026) }
	return opt
}

func TestTimesOfAppend(t *testing.T) {
	day := 24 * time.Hour.Milliseconds()
	events := []event.Event{
		ev("a", at(2006), "view"), ev("a", at(2006)-1, "view"), ev("a", at(2026)+day-1, "view"), ev("a", at(2026)+day, "view"),
		ev("a", at(1), "view"), ev("a", event.MaxTime, "view"), ev("a", event.MinTime-1, "view"), ev("a", math.MaxInt64, "view"),
	}
	for _, c := range []struct {
		times Times
		taken []int // of the events, each appended alone
	}{
		{Times{}, []int{0, 2}},
		{Times{From: date(1)}, []int{0, 1, 2, 4}},
		{Times{To: date(9999)}, []int{0, 2, 3}},
		{Times{From: date(2006).Add(-time.Millisecond), To: date(2006)}, []int{1}},
		{Times{Any: true}, []int{0, 1, 2, 3, 4, 5}},
	} {
		s := open(t, t.TempDir(), clocked(c.times))
		var taken []int
		for i := range events {
			err := s.Append(t.Context(), events[i:i+1])
			if err == nil {
				taken = append(taken, i)
			} else if !isRefused(err) {
				t.Errorf("%+v: got %v of event %d", c.times, err, i)
			}
		}
		if fmt.Sprint(taken) != fmt.Sprint(c.taken) {
			t.Errorf("%+v: got %d taken, want %d", c.times, taken, c.taken)
		}
	}
	// The error lists all events outside, and nothing of the call is taken.
	s := open(t, t.TempDir(), clocked(Times{}))
	err := s.Append(t.Context(), events[:5])
	refused, ok := errors.AsType[*RejectedError](err)
	if !ok || len(refused.Refused) != 3 || refused.Refused[2].Index != 4 {
		t.Fatalf("got %v, want three events refused", err)
	}
	if outside, ok := errors.AsType[*TimeError](refused.Refused[0].Err); !ok || outside.Time != at(2006)-1 || outside.From != at(2006) || outside.To != at(2026)+day {
		t.Errorf("got %v, want a TimeError with the bounds", refused.Refused[0].Err)
	}
	wantCount(t, s, 0)
}

func TestTimesOfImport(t *testing.T) {
	lines := map[string]string{
		"x.csv":    "user,time,event\na,2026-05-01,view\nb,0001-02-03,view\nc,1721000000000000,view\nd,9999-12-31,view\n",
		"x.ndjson": `{"user":"a","time":"2026-05-01","event":"view"}` + "\n" + `{"user":"b","time":"0001-02-03","event":"view"}` + "\n" + `{"user":"c","time":1721000000,"event":"view"}` + "\n" + `{"user":"d","time":"9999-12-31","event":"view"}` + "\n",
	}
	for name, text := range lines {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, t.TempDir(), clocked(Times{}))
		if _, err := s.Import(t.Context(), []string{path}, ImportOptions{}); err == nil {
			t.Errorf("%s: got no error of rows outside", name)
		}
		wantCount(t, s, 0)
		r, err := s.Import(t.Context(), []string{path}, ImportOptions{MaxBad: 2})
		if err != nil || r.Rows() != 2 || r.Files[0].Bad != 2 {
			t.Fatalf("%s: got %+v and %v, want 2 rows and 2 bad ones", name, r, err)
		}
		first := 3
		if name == "x.ndjson" {
			first = 2
		}
		if bad := r.Files[0].BadRows[0]; bad.Line != int64(first) || !strings.Contains(bad.Reason, "only times from 2006-06-01T00:00:00Z to 2026-06-02T00:00:00Z are taken") {
			t.Errorf("%s: got %+v", name, bad)
		}
		s = open(t, t.TempDir(), clocked(Times{Any: true}))
		if r, err := s.Import(t.Context(), []string{path}, ImportOptions{}); err != nil || r.Rows() != 4 {
			t.Errorf("%s: got %+v and %v of any times", name, r, err)
		}
		// What is there can be exported and taken again, by who says so alone.
		parquet := filepath.Join(t.TempDir(), "x.parquet")
		f, err := os.Create(parquet)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Export(t.Context(), f, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, t.TempDir(), clocked(Times{}))
		if r, err := s.Import(t.Context(), []string{parquet}, ImportOptions{MaxBad: 2}); err != nil || r.Rows() != 2 || r.Files[0].Bad != 2 {
			t.Errorf("%s: got %+v and %v of the export", name, r, err)
		}
	}
}

// TestOldTimesStay opens a store that has events outside of the window, in segments
// and in the log.
func TestOldTimesStay(t *testing.T) {
	dir, snap := t.TempDir(), filepath.Join(t.TempDir(), "store")
	s := open(t, dir, clocked(Times{Any: true}))
	add(t, s, ev("a", at(900), "view"), ev("a", at(3000), "view"))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, s, ev("a", at(800), "view"), ev("a", at(4000), "view"))
	if err := os.CopyFS(snap, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s = open(t, snap, clocked(Times{}))
	wantCount(t, s, 4)
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, 4)
	wantSound(t, snap)
}

func TestParseTimes(t *testing.T) {
	for _, c := range []struct {
		text string
		want Times
		fail string
	}{
		{"", Times{}, ""},
		{"any", Times{Any: true}, ""},
		{"2001-06-01/2030-06-01", Times{From: date(2001), To: date(2030)}, ""},
		{"2001-06-01T00:00:00Z/", Times{From: date(2001)}, ""},
		{"/2030-06-01", Times{To: date(2030)}, ""},
		{"2030-06-01/2001-06-01", Times{}, "is not before"},
		{"2001-06-01", Times{}, "want any, or FROM/TO"},
		{"2001/2002", Times{}, `"2001" is not a day`},
		{"2001-06-31/", Times{}, `"2001-06-31" is not a day`},
	} {
		got, err := ParseTimes(c.text)
		if got != c.want || (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%q: got %+v and %v, want %+v and %q", c.text, got, err, c.want, c.fail)
		}
		if err == nil {
			if again, err := ParseTimes(got.String()); err != nil || again != got {
				t.Errorf("%q: got %+v and %v of %q", c.text, again, err, got.String())
			}
		}
	}
}

// TestBuckets fills a store with as many buckets as it takes.
func TestBuckets(t *testing.T) {
	opt := clocked(Times{Any: true})
	opt.Bucket, opt.buckets = time.Hour, 64
	s := open(t, t.TempDir(), opt)
	const each = 16
	most := int64(opt.buckets)
	hour := time.Hour.Milliseconds()
	var refused *RejectedError
	for from := int64(0); from < most; from += each {
		events := make([]event.Event, each)
		for i := range events {
			events[i] = ev("a", base+(from+int64(i))*hour, "view")
		}
		if from > 0 { // one in a bucket that is there, and one that finds no room in the end
			events = append(events, ev("b", base, "view"))
		}
		if from+each == most {
			events = append(events, ev("c", base+most*hour, "view"), ev("c", base, "view"))
			err := s.Append(t.Context(), events)
			if !errors.As(err, &refused) || len(refused.Refused) != 1 || refused.Refused[0].Index != each+1 {
				t.Fatalf("got %v, want one event refused", err)
			}
			events = append(events[:each+1], events[each+2])
		}
		add(t, s, events...)
	}
	for _, e := range []event.Event{ev("d", base-hour, "view"), ev("d", base+most*hour, "view")} {
		if err := s.Append(t.Context(), []event.Event{e}); !isRefused(err) {
			t.Errorf("got %v, want the event refused", err)
		}
	}
	add(t, s, ev("e", base+hour, "view"))
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, fmt.Appendf(nil, "user,time,event\na,%d,view\n", base-hour), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), []string{path}, ImportOptions{TimeUnit: "ms"}); err == nil || !strings.Contains(err.Error(), "at most 64 buckets") {
		t.Errorf("got %v of an import into one more bucket", err)
	}
}
