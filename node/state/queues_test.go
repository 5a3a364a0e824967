package state

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueues compares random changes with the same changes of slices.
func TestQueues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var q Queues[int, int]
	want := make(map[int][]*Place[int, int])
	var all []*Place[int, int]
	var empty <-chan struct{} // asked for before
	for range 5000 {
		if rnd.IntN(5) < 2 {
			p := &Place[int, int]{Key: rnd.IntN(5), Value: len(all)}
			first := q.Join(p)
			want[p.Key] = append(want[p.Key], p)
			if all = append(all, p); first != (len(want[p.Key]) == 1) {
				t.Fatalf("first is %t of %d", first, len(want[p.Key]))
			}
		} else if len(all) > 0 {
			p := all[rnd.IntN(len(all))] // which may have left before
			line := want[p.Key]
			i := slices.Index(line, p)
			if next := q.Leave(p); i == 0 && len(line) > 1 && next != line[1] || (i != 0 || len(line) == 1) && next != nil {
				t.Fatalf("place %d of %d has left: %v is next", i, len(line), next)
			}
			if i >= 0 {
				want[p.Key] = slices.Delete(line, i, i+1)
			}
		}
		n, keys := 0, 0
		for key, line := range want {
			var got []*Place[int, int]
			for p := q.First(key); p != nil; p = p.Next() {
				got = append(got, p)
			}
			if !slices.Equal(got, line) || q.Count(key) != len(line) {
				t.Fatalf("key %d: got %v, want %v", key, got, line)
			}
			if n += len(line); len(line) > 0 {
				keys++
			}
		}
		if n > 0 && empty == nil {
			empty = q.Empty()
		} else if n == 0 && empty != nil {
			<-empty
			empty = nil
		}
		select {
		case <-q.Empty():
			if n > 0 {
				t.Fatalf("%d are left, and the queues are empty", n)
			}
		default:
			if n == 0 {
				t.Fatal("the queues are not empty")
			}
		}
		if q.Len() != n || q.Keys() != keys || len(q.All()) != n {
			t.Fatalf("got %d of %d keys, want %d of %d", q.Len(), q.Keys(), n, keys)
		}
	}
}
