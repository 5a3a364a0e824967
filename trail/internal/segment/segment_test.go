package segment

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/trail/event"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A row is an event as tests hold it.
type row struct {
	user   string
	time   int64
	name   string
	id     uint64
	values []event.Value
}

// build makes an image of rows, in their order.
func build(t testing.TB, schema event.Schema, rows []row) []byte {
	t.Helper()
	b := NewBuilder(schema)
	for _, r := range rows {
		b.Add(r.user, r.time, r.name, r.id, r.values)
	}
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func open(t testing.TB, image []byte) *Segment {
	t.Helper()
	s, err := FromBytes("test", image)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sortRows does what a segment promises, the slow way.
func sortRows(rows []row) []row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(event.Hash(a.user), event.Hash(b.user)), cmp.Compare(a.user, b.user),
			cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id))
	})
	return slices.CompactFunc(rows, func(a, b row) bool {
		return a.id != 0 && a.user == b.user && a.time == b.time && a.id == b.id
	})
}

// compare reads a whole segment and compares it with rows in their order.
func compare(t testing.TB, s *Segment, schema event.Schema, want []row) {
	t.Helper()
	if s.Rows() != len(want) {
		t.Fatalf("got %d rows, want %d", s.Rows(), len(want))
	}
	r, _, err := s.Range(0, math.MaxUint64)
	if err != nil {
		t.Fatal(err)
	}
	if r.UserLo != 0 || r.UserHi != s.Users() || r.RowLo != 0 || r.RowHi != s.Rows() {
		t.Fatalf("got range %+v of %d users and %d rows", r, s.Users(), s.Rows())
	}
	prepare := func(_ int64, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	prepare(s.Times().Prepare(0, s.Rows()))
	prepare(s.Events().Prepare(0, s.Rows()))
	if s.HasIDs() {
		prepare(s.IDs().Prepare(0, s.Rows()))
	}
	at := 0
	for u := range s.Users() {
		id, err := s.UserID(u)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Hashes()[u], event.Hash(id); got != want {
			t.Fatalf("user %d %q: got hash %x, want %x", u, id, got, want)
		}
		if s.FirstRow(u) != at {
			t.Fatalf("user %d %q: got first row %d, want %d", u, id, s.FirstRow(u), at)
		}
		for ; at < len(want) && want[at].user == id; at++ {
		}
	}
	if at != len(want) {
		t.Fatalf("got rows of %d events, want %d", at, len(want))
	}
	times, events := s.Times().Read(nil, 0, s.Rows()), s.Events().Read32(nil, 0, s.Rows())
	var ids []uint64
	if s.HasIDs() {
		ids = s.IDs().ReadRaw(nil, 0, s.Rows())
	}
	for i, w := range want {
		if got := s.Times().Base() + s.Times().Unit()*int64(times[i]); got != w.time {
			t.Fatalf("row %d: got time %d, want %d", i, got, w.time)
		}
		if got := s.Events().Value(events[i]).Text(); got != w.name {
			t.Fatalf("row %d: got event %q, want %q", i, got, w.name)
		}
		if ids != nil && ids[i] != w.id || ids == nil && w.id != 0 {
			t.Fatalf("row %d: want id %d", i, w.id)
		}
	}
	for i, f := range schema {
		compareColumn(t, s, f, want, i)
	}
}

func compareColumn(t testing.TB, s *Segment, f event.Field, want []row, i int) {
	t.Helper()
	value := func(r row) event.Value {
		if i < len(r.values) {
			v, _ := r.values[i].As(f.Type)
			return v
		}
		return event.Value{}
	}
	c := s.Column(f.Name)
	if c == nil {
		for at, w := range want {
			if !value(w).Missing() {
				t.Fatalf("row %d: got no column %s, want %v", at, f.Name, value(w))
			}
		}
		return
	}
	if _, err := c.Prepare(0, s.Rows()); err != nil {
		t.Fatal(err)
	}
	missing := 0
	got := readValues(c, 0, s.Rows())
	for at, w := range want {
		if value(w).Missing() {
			missing++
		}
		if got[at] != value(w) {
			t.Fatalf("row %d: got %s %q (%s), want %q", at, f.Name, got[at], c.Encoding(), value(w))
		}
	}
	if c.MissingCount() != missing {
		t.Errorf("%s: got %d missing, want %d", f.Name, c.MissingCount(), missing)
	}
}

func readValues(c *Column, lo, hi int) []event.Value {
	values := make([]event.Value, hi-lo)
	if c.Codes() == 0 {
		for i, bits := range c.ReadRaw(nil, lo, hi) {
			values[i] = c.Raw(bits)
		}
		return values
	}
	for i, code := range c.Read32(nil, lo, hi) {
		values[i] = c.Value(code)
	}
	return values
}

// draw returns random rows of a random schema: all types, few and many values,
// missing ones, ties and events that came twice.
func draw(rnd *rand.Rand, n int) (event.Schema, []row) {
	schema := event.Schema{}
	var gens []func(user int) event.Value
	for i := range 1 + rnd.IntN(7) {
		t := event.String + event.Type(rnd.IntN(4))
		schema = append(schema, event.Field{Name: fmt.Sprintf("p%d", i), Type: t})
		gens = append(gens, drawValues(rnd, t))
	}
	users := 1 + rnd.IntN(n/2+1)
	prefix := []string{"u", "", "user-00", "ü"}[rnd.IntN(4)]
	plain := rnd.IntN(2) == 0
	ids := rnd.IntN(2) == 0
	names := []int{1, 3, 9, 70}[rnd.IntN(4)]
	step := []int64{1, 1000, 60_000}[rnd.IntN(3)]
	rows := make([]row, 0, n)
	for range n {
		u := rnd.IntN(users)
		r := row{time: 1_700_000_000_000 + step*rnd.Int64N(40_000), name: fmt.Sprintf("e%d", rnd.IntN(names))}
		if r.user = fmt.Sprintf("%s%d", prefix, u+1); !plain {
			r.user = fmt.Sprintf("%s%x-%d", prefix, event.Hash(r.user), u)
		}
		if ids {
			r.id = rnd.Uint64N(5)
		}
		for _, g := range gens[:rnd.IntN(len(gens)+1)] {
			r.values = append(r.values, g(u))
		}
		rows = append(rows, r)
		if rnd.IntN(20) == 0 {
			rows = append(rows, r)
		}
	}
	return schema, rows
}

func drawValues(rnd *rand.Rand, t event.Type) func(user int) event.Value {
	missing := []int{0, 0, 40, 97}[rnd.IntN(4)]
	many := []int64{1, 2, 60, 300, 100_000, math.MaxInt64}[rnd.IntN(6)]
	sticky := rnd.IntN(3)
	scale := []float64{1, 10, 100, 1e6, math.Pi}[rnd.IntN(5)]
	var last event.Value
	return func(user int) event.Value {
		if rnd.IntN(100) < missing {
			return event.Value{}
		}
		if sticky == 1 && !last.Missing() && rnd.IntN(10) > 0 {
			return last
		}
		n := rnd.Int64N(many) - many/2
		if sticky == 2 {
			n = int64(user) % many
		}
		switch t {
		case event.String:
			last = event.StringOf(fmt.Sprintf("v%d", n))
		case event.Int:
			last = event.IntOf(n)
		case event.Float:
			last = event.FloatOf(float64(n) / scale)
		case event.Bool:
			last = event.BoolOf(n%2 == 0)
		}
		return last
	}
}

func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func TestImage(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := seeded(t, seed)
			schema, rows := draw(rnd, 1+rnd.IntN(3000))
			s := open(t, build(t, schema, rows))
			compare(t, s, schema, sortRows(rows))
			if found := s.Verify(); len(found) > 0 {
				t.Error(found[0].Error())
			}
		})
	}
}

func TestMerge(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := seeded(t, seed)
			schema, rows := draw(rnd, 1+rnd.IntN(3000))
			parts := make([][]row, 1+rnd.IntN(5))
			for _, r := range rows {
				i := rnd.IntN(len(parts))
				parts[i] = append(parts[i], r)
			}
			drop := rows[rnd.IntN(len(rows))].user
			from := rows[rnd.IntN(len(rows))].time
			var inputs []Input
			var want []row
			for i, part := range parts {
				in := Input{Segment: open(t, build(t, schema, part)), From: math.MinInt64}
				if i%2 == 1 {
					in.From, in.Dropped = from, []uint64{0, event.Hash(drop), math.MaxUint64}
				}
				for _, r := range part {
					if i%2 == 0 || r.time >= from && r.user != drop {
						want = append(want, r)
					}
				}
				inputs = append(inputs, in)
			}
			var out bytes.Buffer
			sum, err := Merge(&out, inputs)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "merged")
			if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			want = sortRows(want)
			compareTies(t, s, schema, want)
			if found := s.Verify(); len(found) > 0 {
				t.Error(found[0].Error())
			}
			if sum.Rows != s.Rows() || sum.Users != s.Users() || sum.Bytes != s.Size() || sum.MinTime != s.MinTime() || sum.MaxTime != s.MaxTime() {
				t.Errorf("got %+v of a segment of %d rows, %d users, %d bytes", sum, s.Rows(), s.Users(), s.Size())
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFilled holds that Filled counts the bytes of events, and Bytes the memory kept.
func TestFilled(t *testing.T) {
	b := NewBuilder(event.Schema{{Name: "n", Type: event.Int}, {Name: "s", Type: event.String}})
	for i := range 1000 {
		b.Add("u", int64(i), "view", 1, []event.Value{event.IntOf(1), event.StringOf("x")})
	}
	if got, want := b.Filled(), int64(17+1000*(4+4+8+8+8+4)); got != want {
		t.Errorf("got %d bytes of 1000 events, want %d", got, want)
	}
	if b.Reset(); b.Filled() != 0 || b.Bytes() == 0 {
		t.Errorf("got %d bytes of no events, and %d kept; want 0, and some", b.Filled(), b.Bytes())
	}
}
