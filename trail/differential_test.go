package trail

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestAnswersDoNotDependOnTheWay appends random events in random portions, with
// flushes, compactions and new starts in between, and compares the answers with
// the reference, which has no store.
func TestAnswersDoNotDependOnTheWay(t *testing.T) {
	cases := 25
	first := uint64(1)
	if os.Getenv("TRAIL_FAULTS") == "full" {
		cases, first = 500, uint64(time.Now().UnixNano())
	}
	for i := range cases {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { oneWay(t, seed) })
	}
}

func oneWay(t *testing.T, seed uint64) {
	c := trailtest.Draw(seed, trailtest.DrawOptions{})
	lot := rand.New(rand.NewPCG(seed, 2))
	dir := t.TempDir()
	opt := quiet()
	opt.Bucket = time.Duration(1+lot.IntN(49)) * 24 * time.Hour
	opt.FlushRows = 20 + lot.IntN(200)
	opt.Times.Any = true // the cases have events of all centuries
	s, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if len(c.Events) == 0 {
		return
	}
	// The type of a property that no event has in that form would not be known.
	var types []event.Property
	for _, f := range c.Schema {
		types = append(types, prop(f.Name, map[event.Type]event.Value{
			event.String: event.StringOf("x"), event.Int: event.IntOf(1), event.Float: event.FloatOf(0.5), event.Bool: event.BoolOf(true),
		}[f.Type]))
	}
	add(t, s, ev("unknown", c.Events[0].Time, "nothing", types...))
	if _, err := s.DeleteUser(t.Context(), "unknown"); err != nil {
		t.Fatal(err)
	}
	for rest := c.Events; len(rest) > 0; {
		n := min(len(rest), 1+lot.IntN(50))
		add(t, s, rest[:n]...)
		rest = rest[n:]
		switch lot.IntN(12) {
		case 0:
			err = s.Flush(t.Context())
		case 1:
			err = s.Compact(t.Context(), nil)
		case 2:
			if err = s.Close(); err == nil {
				s, err = Open(dir, opt)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, hashes := range c.Cohorts {
		users := make([]query.User, len(hashes))
		for i, h := range hashes {
			users[i].Hash = h
		}
		if err := s.saveCohort(name, users); err != nil {
			t.Fatal(err)
		}
	}
	for i, q := range c.Queries {
		if err := q.Check(); err != nil {
			t.Fatal(err)
		}
		want, wantErr := trailtest.Answer(c.Events, c.Schema, q, c.Cohorts)
		got, err := s.Query(t.Context(), q, QueryOptions{})
		if (err == nil) != (wantErr == nil) {
			t.Errorf("query %d: got the error %v, want %v", i, err, wantErr)
			continue
		}
		if err != nil {
			continue
		}
		if q.Sample == 1 || q.Sample == 0 {
			if err := trailtest.Equal(got, want, 1e-9); err != nil {
				t.Errorf("query %d: %v", i, err)
			}
		}
	}
}
