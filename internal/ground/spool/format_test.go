package spool

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// FuzzScanner passes arbitrary bytes to the scanner: its findings cover all of them
// without overlap, and appendRecord writes each record in the same way.
func FuzzScanner(f *testing.F) {
	one := appendRecord(nil, Record{Kind: Data, Lane: 3, Epoch: 4, Seq: 5, Count: 6, Payload: []byte("payload")})
	two := appendRecord(one, Record{Kind: Batch, Payload: nil})
	f.Add(one)
	f.Add(two)
	f.Add(append([]byte("SPOL"), two...))
	f.Add(append(one[:len(one)-1:len(one)-1], two...))
	f.Add(appendRecord(nil, Record{Kind: Data, Payload: one})[1:])
	f.Add(append(bytes.Clone(one), make([]byte, 50)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		sc := newScanner(bytes.NewReader(b), int64(len(b)))
		off := int64(0)
		damaged := false
		for off < sc.size {
			got, ok := sc.next(off, sc.size)
			if !ok || got.from != off || got.to <= off || got.to > sc.size {
				t.Fatalf("got %+v %t at %d of %d", got, ok, off, sc.size)
			}
			if got.ok {
				r := got.record
				again := appendRecord(nil, r)
				again[13] = b[off+13] // flags, which mean nothing yet
				if !bytes.Equal(again[12:], b[off+12:got.to]) {
					t.Errorf("got %+v of %q", r, b[off:got.to])
				}
			} else if damaged {
				t.Errorf("two damaged places at %d without a record between", off)
			}
			damaged = !got.ok
			off = got.to
		}
		for off := range sc.size {
			if _, _, ok := sc.record(off); ok != sc.plausible(off) {
				t.Errorf("got record %t at %d and plausible %t", ok, off, !ok)
			}
		}
	})
}

// FuzzCheckpoint passes arbitrary bytes to the decoder: a valid checkpoint is encoded in
// the same way.
func FuzzCheckpoint(f *testing.F) {
	f.Add(appendCheckpoint(nil, checkpoint{}))
	f.Add(appendCheckpoint(nil, checkpoint{generation: 1, epoch: 2, next: 3, segments: []state{
		{number: 1, mark: 32, synced: 400, events: 7, acked: []span{{50, 60}, {70, 90}}},
		{number: 2, events: unknown},
	}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= checkpointHeader { // or no input would come further
			b = bytes.Clone(b)
			le.PutUint32(b[16:], uint32(len(b)))
			le.PutUint32(b[8:], checksum(b[12:]))
		}
		c, wrong := parseCheckpoint(b)
		if wrong != "" {
			return
		}
		again, wrong := parseCheckpoint(appendCheckpoint(nil, c))
		if wrong != "" || len(again.segments) != len(c.segments) || again.next != c.next {
			t.Errorf("got %+v %s, want %+v", again, wrong, c)
		}
	})
}

func TestCheckpointRoundTrip(t *testing.T) {
	want := checkpoint{generation: 9, epoch: 8, next: 7, segments: []state{
		{number: 5, mark: 100, synced: 900, events: 3, acked: []span{{120, 130}, {130, 170}}},
		{number: 6, mark: 32, synced: 32, events: unknown, acked: []span{}},
	}}
	got, wrong := parseCheckpoint(append(appendCheckpoint(nil, want), 1, 2, 3))
	if wrong != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %s, want %+v", got, wrong, want)
	}
	b := appendCheckpoint(nil, want)
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x10
		if _, wrong := parseCheckpoint(damaged); wrong == "" {
			t.Errorf("byte %d damaged: got no complaint", i)
		}
	}
}

func TestPrefixSums(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, block - 1, block, block + 1, 3*block + 77} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		p := newPrefixSums(bytes.NewReader(b), int64(size))
		for range 200 {
			from := rnd.IntN(size + 1)
			to := from + rnd.IntN(size-from+1)
			if got, want := p.between(int64(from), int64(to)), checksum(b[from:to]); got != want {
				t.Fatalf("%d to %d of %d: got %08x, want %08x", from, to, size, got, want)
			}
		}
	}
}

func TestAckSet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		a := ackSet{mark: 10}
		order := rnd.Perm(100)
		done := make(map[int]bool)
		for _, i := range order {
			s := span{int64(10 + i*5), int64(15 + i*5)}
			if !a.add(s) || a.add(s) {
				t.Fatalf("%v: got it twice, or never", s)
			}
			done[i] = true
			first := 0
			for done[first] {
				first++
			}
			if want := int64(10 + first*5); a.mark != want {
				t.Fatalf("got mark %d, want %d", a.mark, want)
			}
			covered := int64(0)
			for _, s := range a.spans(nil) {
				covered += s.to - s.from
			}
			if want := int64(5 * (len(done) - first)); covered != want {
				t.Fatalf("got %d bytes beyond, want %d", covered, want)
			}
		}
		if len(a.beyond) != 0 {
			t.Errorf("got %v left", a.beyond)
		}
	}
}
