package runs

import (
	"context"
	"errors"
	"net/http"
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

// all asks for one part after the other, and returns what they were.
func all(t *testing.T, v *View, b Bulk) (parts []api.RunBulked) {
	t.Helper()
	for {
		part, err := v.Bulk(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
		if b.After = part.Next; b.After == "" {
			return parts
		}
	}
}

// TestBulkPages does something with each of 1,000 runs once, at the rate, a page at a time.
func TestBulkPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &many{n: 1000}
		var done []journal.ID
		b := Bulk{Query: Query{States: []string{"failed"}}, Rate: 100}
		b.Act = func(_ context.Context, id journal.ID) error {
			if len(done) > 0 && len(done)%10 == 0 {
				m.n++ // a run that begins meanwhile is not met
			}
			done = append(done, id)
			return nil
		}
		began := time.Now()
		parts := all(t, view(m), b)
		if len(done) != 1000 {
			t.Fatalf("done with %d runs", len(done))
		}
		for i, id := range done {
			if id != numbered(1000-i) {
				t.Fatalf("%d. was %s", i, text(id))
			}
		}
		if took := time.Since(began); took < 9990*time.Millisecond || took > 11*time.Second {
			t.Errorf("took %s, want ten seconds for 1,000 runs at 100 in a second", took)
		}
		if m.largest > api.MaxRuns+1 || len(parts) < 5 {
			t.Errorf("pages of up to %d in %d parts", m.largest, len(parts))
		}
	})
}

// TestBulkSlow returns after two seconds, so that who asks sees how far it is.
func TestBulkSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Bulk{IDs: []string{text(numbered(1)), text(numbered(2)), text(numbered(3)), text(numbered(4))}, Rate: 1, Act: func(context.Context, journal.ID) error { return nil }}
		sum := 0
		parts := all(t, view(&many{}), b)
		for _, part := range parts {
			sum += part.Done
		}
		if sum != 4 || len(parts) != 2 {
			t.Errorf("%d in %d parts", sum, len(parts))
		}
	})
}

// TestBulkEnds goes on after a run that is refused, and ends where nothing can be done.
func TestBulkEnds(t *testing.T) {
	full := &node.Error{Err: errors.New("full"), Status: http.StatusServiceUnavailable}
	errs := map[journal.ID]error{numbered(3): &node.Error{Err: errors.New("ended"), Status: http.StatusConflict}, numbered(2): journal.ErrNotFound, numbered(1): full}
	v := view(&many{n: 4})
	b := Bulk{Query: Query{Trigger: uuid.NewString()}, Rate: api.MaxRate, Act: func(_ context.Context, id journal.ID) error { return errs[id] }}
	part, err := v.Bulk(t.Context(), b)
	if err != nil || part.Done != 1 || len(part.Refused) != 2 || part.Refused[0].Message != "ended" || part.Refused[1].Message != "there is no run with this id" || part.Next != text(numbered(2)) {
		t.Fatalf("got %+v, %v", part, err)
	}
	b.After = part.Next
	if _, err := v.Bulk(t.Context(), b); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	delete(errs, numbered(1))
	if part, err = v.Bulk(t.Context(), b); err != nil || part.Done != 1 || part.Next != "" {
		t.Errorf("got %+v, %v", part, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Bulk(ctx, b); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
