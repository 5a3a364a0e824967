package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

func TestUserIDs(t *testing.T) {
	f := func(kind idKind, ids ...string) {
		t.Helper()
		var rows []row
		for _, id := range ids {
			rows = append(rows, row{user: id, name: "e"})
		}
		s := open(t, build(t, nil, rows))
		if s.ids.kind != kind {
			t.Errorf("%.60q: got kind %d, want %d", ids, s.ids.kind, kind)
		}
		compare(t, s, nil, sortRows(rows))
		if found := s.Verify(); len(found) > 0 {
			t.Errorf("%.60q: got %s", ids, found[0].Error())
		}
	}
	f(idNumbers, "u1")
	f(idNumbers, "u1", "u2", "u999999")
	f(idNumbers, "0", "7", "72057594037927935")
	f(idNumbers, "2025-0000001", "2025-0000009")
	f(idNumbers, "18446744073709551615", "18446744073709551614")
	f(idBlocks, "u007", "u010") // with other zeros
	f(idBlocks, "u1", "v2")
	f(idBlocks, "a", "b")
	f(idBlocks, "1", "18446744073709551615") // 64 bits do not fit
	f(idBlocks, "18446744073709551616")
	f(idBlocks, "\x00\xff", strings.Repeat("y", 3))
	var mails, prefixed []string
	for i := range 1000 {
		mails = append(mails, fmt.Sprintf("someone.number-%d@mail.example", i*7919))
		prefixed = append(prefixed, fmt.Sprintf("member/%d", i*7919+1))
	}
	f(idS2, mails...)
	f(idNumbers, prefixed...)
}

func TestUserIDOutside(t *testing.T) {
	s := open(t, build(t, nil, []row{{user: "u", name: "e"}}))
	for _, ord := range []int{-1, 1} {
		if _, err := s.UserID(ord); err == nil {
			t.Errorf("user %d of 1: got no error", ord)
		}
	}
}

// collide returns two strings with the same hash: XXH64 mixes each eighth byte
// group with the one 32 bytes later by operations that can be turned round.
func collide(t *testing.T, a, b uint64) (string, string) {
	t.Helper()
	const p1, p2 = uint64(11400714785074694791), uint64(14029467366897019727)
	inverse := p2 // of p2 modulo 2^64, by Newton's method
	for range 6 {
		inverse *= 2 - p2*inverse
	}
	start := p1
	start += p2
	lane := func(in uint64) uint64 { return bits.RotateLeft64(start+in*p2, 31) * p1 }
	text := func(first, second uint64) string {
		s := bytes.Repeat([]byte("."), 64)
		binary.LittleEndian.PutUint64(s, first)
		binary.LittleEndian.PutUint64(s[32:], second)
		return string(s)
	}
	x, y := text(a, 42), text(b, 42+(lane(a)-lane(b))*inverse)
	if event.Hash(x) != event.Hash(y) || x == y {
		t.Fatalf("got hashes %x and %x, want the same", event.Hash(x), event.Hash(y))
	}
	return x, y
}

// TestSameHash keeps two users apart who share a hash, also when they are merged.
func TestSameHash(t *testing.T) {
	a, b := collide(t, 1, 2)
	row := func(user string, time int64, name string) row { return row{user: user, time: time, name: name} }
	one := []kept{row(a, 1000, "x"), row(b, 500, "y"), row("other", 700, "z")}
	two := []kept{row(b, 400, "x"), row(a, 2000, "y")}
	s, s2 := open(t, build(t, nil, one)), open(t, build(t, nil, two))
	compare(t, s, nil, sortRows(one))
	if found := s.Verify(); len(found) > 0 {
		t.Error(found[0].Error())
	}
	r, _, err := s.Range(event.Hash(a), event.Hash(a))
	if err != nil || r.UserHi-r.UserLo != 2 || r.RowHi-r.RowLo != 2 {
		t.Errorf("got %+v, %v, want two users and their rows", r, err)
	}
	var out bytes.Buffer
	if _, err := Merge(&out, []Input{{Segment: s, From: math.MinInt64}, {Segment: s2, From: math.MinInt64}}); err != nil {
		t.Fatal(err)
	}
	merged := open(t, out.Bytes())
	compare(t, merged, nil, sortRows(append(one, two...)))
	if found := merged.Verify(); len(found) > 0 {
		t.Error(found[0].Error())
	}
}

// kept is row, where a function has that name.
type kept = row

func TestRange(t *testing.T) {
	rnd := seeded(t, 11)
	_, rows := draw(rnd, 5000)
	s := open(t, build(t, nil, strip(rows)))
	all := sortRows(strip(rows))
	for range 200 {
		from, to := rnd.Uint64(), rnd.Uint64()
		switch rnd.IntN(4) {
		case 0:
			from = event.Hash(all[rnd.IntN(len(all))].user)
		case 1:
			to = event.Hash(all[rnd.IntN(len(all))].user)
		case 2:
			to = math.MaxUint64
		}
		want := 0
		for _, r := range all {
			if h := event.Hash(r.user); from <= h && h <= to {
				want++
			}
		}
		r, n, err := s.Range(from, to)
		if err != nil || r.RowHi-r.RowLo != want || n != int64(r.UserHi-r.UserLo)*10 { // there are halves
			t.Errorf("Range(%x, %x): got %+v, %d bytes, %v, want %d rows", from, to, r, n, err, want)
		}
	}
}

// strip leaves out the values.
func strip(rows []row) []row {
	stripped := make([]row, len(rows))
	for i, r := range rows {
		r.values = nil
		stripped[i] = r
	}
	return stripped
}

func TestEventSets(t *testing.T) {
	for _, names := range []int{1, 8, 9, 16, 17, 32, 33, 64, 65} {
		rnd := seeded(t, uint64(names))
		var rows []row
		for i := range 300 {
			name := i
			if i >= names {
				name = rnd.IntN(names)
			}
			rows = append(rows, row{user: fmt.Sprint(rnd.IntN(40)), time: int64(i), name: fmt.Sprintf("%02d", name)})
		}
		s := open(t, build(t, nil, rows))
		x := s.EventSets()
		if names > 64 {
			if x != nil {
				t.Errorf("%d names: got sets", names)
			}
			continue
		}
		if _, err := x.Prepare(0, s.Users()); err != nil {
			t.Fatal(err)
		}
		want := make(map[string]uint64)
		for _, r := range rows {
			code, _ := s.Events().Search(event.StringOf(r.name))
			want[r.user] |= 1 << (code - 1)
		}
		for u, got := range x.Read(nil, 0, s.Users()) {
			id, err := s.UserID(u)
			if err != nil || got != want[id] {
				t.Errorf("%d names, user %s: got %x, %v, want %x", names, id, got, err, want[id])
			}
		}
	}
}

// TestConcurrent reads one segment from several goroutines from the first page on:
// the race detector watches.
func TestConcurrent(t *testing.T) {
	b := NewBuilder(shopSchema)
	shop(5, 20_000, func(user string, millis int64, name string, values []event.Value) {
		b.Add("customer-"+user+"@mail.example", millis, name, 0, values)
	})
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, image)
	if s.ids.kind != idS2 {
		t.Errorf("got ids of kind %d, want compressed ones", s.ids.kind)
	}
	var wg sync.WaitGroup
	errs := make(chan error, 8) // one for each reader
	for range cap(errs) {
		wg.Go(func() { errs <- use(s) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	s := open(t, build(t, nil, []row{{user: "u", name: "e"}}))
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}
