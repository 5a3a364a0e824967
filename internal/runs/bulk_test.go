package runs

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
)

// many is a journal with many runs, of which it makes a page when asked.
type many struct {
	journal.Reader
	n       int
	largest int // page that was asked for
}

func numbered(n int) journal.ID { return journal.ID{14: byte(n >> 8), 15: byte(n)} }

func (m *many) List(_ context.Context, f journal.Filter) (page []*journal.Run, err error) {
	at := m.n
	if f.After != (journal.ID{}) {
		at = int(f.After[14])<<8 + int(f.After[15]) - 1
	}
	for ; at > 0 && len(page) < f.Limit; at-- {
		page = append(page, &journal.Run{ID: numbered(at)})
	}
	m.largest = max(m.largest, len(page))
	return page, nil
}

func view(m *many) *View {
	return &View{Journal: m, Nodes: func() []node.Ref { return nil }, Namespace: "default", Redact: func(text string) string { return text }}
}

// ended starts a job, and waits for its end.
func ended(t *testing.T, j *Jobs, v *View, b Bulk) api.RunJob {
	t.Helper()
	job, err := j.Start(v, b)
	if err != nil {
		t.Fatal(err)
	}
	j.workers.Wait()
	job, _ = j.Get(job.ID)
	return job
}

func newJobs() *Jobs { return NewJobs(slog.New(slog.DiscardHandler)) }

// TestBulkPages does something with each of 1,000 runs once, at the rate, a page at a time.
func TestBulkPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, j := &many{n: 1000}, newJobs()
		defer j.Close()
		var done []journal.ID
		b := Bulk{Query: Query{States: []string{"failed"}}, Rate: 100}
		b.Act = func(_ context.Context, id journal.ID) error {
			if len(done) > 0 && len(done)%10 == 0 {
				m.n++ // a run that begins meanwhile is not met
			}
			done = append(done, id)
			return nil
		}
		b.DryRun = true
		if job := ended(t, j, view(m), b); job.Selected != 1000 || job.Done != 0 || len(done) > 0 {
			t.Errorf("counted %+v", job)
		}
		b.DryRun = false
		began := time.Now()
		job := ended(t, j, view(m), b)
		if len(done) != 1000 || job.Done != 1000 || job.State != "done" || job.Ended.Sub(job.Began) != time.Since(began) {
			t.Fatalf("done with %d runs: %+v", len(done), job)
		}
		for i, id := range done {
			if id != numbered(1000-i) {
				t.Fatalf("%d. was %s", i, text(id))
			}
		}
		if took := time.Since(began); took < 9990*time.Millisecond || took > 11*time.Second {
			t.Errorf("took %s, want ten seconds for 1,000 runs at 100 in a second", took)
		}
		if m.largest > api.MaxRuns+1 {
			t.Errorf("pages of up to %d", m.largest)
		}
	})
}

// TestJobs has one job at a time, which can be cancelled, and which ends with the program.
func TestJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, v := newJobs(), view(&many{n: 1000})
		b := Bulk{Do: "retry", Query: Query{States: []string{"failed"}}, Rate: 1, Act: func(context.Context, journal.ID) error { return nil }}
		first, err := j.Start(v, b)
		if err != nil || first.State != "running" {
			t.Fatalf("%+v, %v", first, err)
		}
		<-time.After(2500 * time.Millisecond)
		_, err = j.Start(v, b)
		if busy, ok := errors.AsType[*BusyError](err); !ok || busy.Job.ID != first.ID || busy.Job.Done != 3 {
			t.Fatalf("a second job: %v", err)
		}
		if _, ok := j.Cancel(first.ID); !ok {
			t.Fatal("it is not known")
		}
		j.workers.Wait()
		if job, _ := j.Get(first.ID); job.State != "cancelled" || job.Error != "" || job.Done != 3 || job.Ended == nil {
			t.Errorf("got %+v", job)
		}
		if _, ok := j.Cancel("7"); ok {
			t.Error("a job that is not there was cancelled")
		}
		second, err := j.Start(v, b)
		if err != nil {
			t.Fatal(err)
		}
		j.Close()
		if job, _ := j.Get(second.ID); job.State != "cancelled" || job.Error != errStopped.Error() {
			t.Errorf("got %+v", job)
		}
		if all := j.All(); len(all) != 2 || all[0].ID != second.ID {
			t.Errorf("got %+v", all)
		}
		if _, err := j.Start(v, b); !errors.Is(err, errStopped) {
			t.Errorf("started at the end: %v", err)
		}
	})
}

// TestBulkEnds goes on after a run that is refused, and ends where nothing can be done.
func TestBulkEnds(t *testing.T) {
	full := &node.Error{Err: errors.New("full"), Status: http.StatusServiceUnavailable}
	conflict := func(text string) error { return &node.Error{Err: errors.New(text), Status: http.StatusConflict} }
	errs := map[journal.ID]error{numbered(5): conflict("ended"), numbered(4): conflict("ended"), numbered(2): journal.ErrNotFound, numbered(1): full}
	j := newJobs()
	defer j.Close()
	b := Bulk{Query: Query{Trigger: uuid.NewString()}, Rate: api.MaxRate, Act: func(_ context.Context, id journal.ID) error { return errs[id] }}
	job := ended(t, j, view(&many{n: 6}), b)
	want := []api.RunRefused{{Runs: 2, Message: "ended", Example: text(numbered(5))}, {Runs: 1, Message: "there is no run with this id", Example: text(numbered(2))}}
	if job.Done != 2 || !slices.Equal(job.Refused, want) || job.State != "failed" || job.Error != "full" {
		t.Fatalf("got %+v", job)
	}
	b.Act = func(_ context.Context, id journal.ID) error { return conflict("of " + text(id)) }
	if job := ended(t, j, view(&many{n: 30}), b); len(job.Refused) != maxReasons+1 || job.Refused[maxReasons].Runs != 10 || job.Refused[maxReasons].Message != "other reasons" {
		t.Errorf("got %+v", job.Refused)
	}
}
