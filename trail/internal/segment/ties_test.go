package segment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// rowsOf reads all rows of a segment back.
func rowsOf(t testing.TB, s *Segment, schema event.Schema) []row {
	t.Helper()
	if _, _, err := s.Range(0, math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	for _, c := range append([]*Column{s.events}, s.columns...) {
		if _, err := c.Prepare(0, s.Rows()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Times().Prepare(0, s.Rows()); err != nil {
		t.Fatal(err)
	}
	rows := make([]row, s.Rows())
	times, events := s.Times().Read(nil, 0, s.Rows()), s.Events().Read32(nil, 0, s.Rows())
	for u := range s.Users() {
		id, err := s.UserID(u)
		if err != nil {
			t.Fatal(err)
		}
		for i := s.FirstRow(u); i < s.FirstRow(u+1); i++ {
			rows[i].user = id
		}
	}
	if s.HasIDs() {
		if _, err := s.IDs().Prepare(0, s.Rows()); err != nil {
			t.Fatal(err)
		}
		for i, id := range s.IDs().ReadRaw(nil, 0, s.Rows()) {
			rows[i].id = id
		}
	}
	for i := range rows {
		rows[i].time = s.Times().Base() + s.Times().Unit()*int64(times[i])
		rows[i].name = s.Events().Value(events[i]).Text()
		rows[i].values = make([]event.Value, len(schema))
	}
	for i, f := range schema {
		if c := s.Column(f.Name); c != nil {
			for at, v := range readValues(c, 0, s.Rows()) {
				rows[at].values[i] = v
			}
		}
	}
	return rows
}

// compareTies compares a segment with rows, where events of one user and
// millisecond without ids may lie in any order.
func compareTies(t testing.TB, s *Segment, schema event.Schema, want []row) {
	t.Helper()
	got := rowsOf(t, s, schema)
	if len(got) != len(want) {
		t.Fatalf("got %d rows, want %d", len(got), len(want))
	}
	text := func(r row) string {
		values := make([]event.Value, len(schema))
		copy(values, r.values)
		return fmt.Sprint(r.name, values)
	}
	order := func(rows []row) {
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Or(cmp.Compare(event.Hash(a.user), event.Hash(b.user)), cmp.Compare(a.user, b.user),
				cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id), cmp.Compare(text(a), text(b)))
		})
	}
	for i := range want { // the order of users, times and ids stands as it is
		a, b := got[i], want[i]
		if a.user != b.user || a.time != b.time || a.id != b.id {
			t.Fatalf("row %d: got %+v, want %+v", i, a, b)
		}
	}
	order(got)
	order(want)
	for i := range want {
		if text(got[i]) != text(want[i]) {
			t.Fatalf("row %d of %s: got %s, want %s", i, want[i].user, text(got[i]), text(want[i]))
		}
	}
}
