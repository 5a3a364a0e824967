package spool_test

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// fill appends records until the spool is full, and returns those accepted.
func fill(t *testing.T, s *spool.Spool, seq *uint64, size int) map[key]spool.Position {
	t.Helper()
	at := make(map[key]spool.Position)
	for {
		k := key{0, s.Epoch(), *seq}
		*seq++ // a number that was refused is never used again
		p, err := s.Append(spool.Record{Kind: spool.Data, Epoch: k.epoch, Seq: k.seq, Count: 1, Payload: payload(0, k.seq, size)})
		if errors.Is(err, spool.ErrFull) {
			return at
		}
		if err != nil {
			t.Fatal(err)
		}
		at[k] = p
	}
}

// sameRecords compares the recovered records with the accepted ones.
func sameRecords(t *testing.T, s *spool.Spool, want map[key]spool.Position, size int) {
	t.Helper()
	got, _ := recovered(t, s)
	for k := range want {
		if b, ok := got[k]; !ok || !bytes.Equal(b, payload(k.lane, k.seq, size)) {
			t.Errorf("seq %d: got %.30q, want it back", k.seq, b)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("seq %d was refused and is there", k.seq)
		}
	}
}

// TestFullAtEveryByte is row 8: the disk becomes full at every byte of a log,
// then there is space again.
func TestFullAtEveryByte(t *testing.T) {
	empty := vfstest.New()
	s, _ := open(t, quiet(empty))
	shut(t, s)
	base := empty.Used()
	const size, long = 90, 700
	step := int64(1)
	if invariant.Race {
		step = 7 // it sees the same at each byte
	}
	for room := int64(0); room < long; room += step {
		fs := empty.Clone()
		fs.SetCapacity(base + room)
		opt := quiet(fs)
		opt.SegmentBytes = 400
		s, _ := open(t, opt)
		var seq uint64
		at := fill(t, s, &seq, size)
		if st := s.Stats(); !errors.Is(st.LastErr, syscall.ENOSPC) {
			t.Fatalf("room %d: got %v in the figures, want ENOSPC", room, st.LastErr)
		}
		for more := 1; more > 0; { // a sealed segment gives back what it had reserved
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			again := fill(t, s, &seq, size)
			more = len(again)
			maps.Copy(at, again)
		}
		for k, p := range at {
			if b, err := s.Read(p, nil); err != nil || !bytes.Equal(b, payload(0, k.seq, size)) {
				t.Fatalf("room %d: got %.30q %v", room, b, err)
			}
		}
		killed := fs.Crash(rand.New(rand.NewPCG(uint64(room), 2)))
		fs.SetCapacity(math.MaxInt64)
		late := key{0, s.Epoch(), seq}
		at[late] = put(t, s, 0, seq, size)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		after := fs.Crash(rand.New(rand.NewPCG(uint64(room), 1)))
		shut(t, s)

		s, rep := open(t, quiet(after))
		if rep.Records != uint64(len(at)) || rep.Corrupt != 0 || rep.LostEvents != 0 {
			t.Errorf("room %d: got %+v, want %d records", room, rep, len(at))
		}
		sameRecords(t, s, at, size)
		shut(t, s)
		delete(at, late)
		s, _ = open(t, quiet(killed))
		sameRecords(t, s, at, size)
		shut(t, s)
		if t.Failed() {
			t.Fatalf("room %d", room)
		}
	}
}

// TestFullThenAcked shows that acknowledgements free space on a full disk, also if the
// only segment is the active one, and that checkpoints are written meanwhile.
func TestFullThenAcked(t *testing.T) {
	fs := vfstest.New()
	s, _ := open(t, quiet(fs))
	fs.SetCapacity(fs.Used() + 1500)
	var seq uint64
	for range 3 {
		at := fill(t, s, &seq, 100)
		if len(at) < 5 {
			t.Errorf("got %d records into 1500 bytes", len(at))
		}
		for _, p := range at {
			s.Ack(p)
		}
	}
	at := fill(t, s, &seq, 100)
	n := 0
	for k, p := range at {
		if n++; n%2 == 0 {
			s.Ack(p)
			delete(at, k)
		}
	}
	shut(t, s)
	s, _ = open(t, quiet(fs))
	sameRecords(t, s, at, 100)
	shut(t, s)
}

// TestFullFromTheStart shows that a spool opens on a full disk: sending its records may
// be the only way to get space.
func TestFullFromTheStart(t *testing.T) {
	fs := vfstest.New()
	s, _ := open(t, quiet(fs))
	want := map[key]spool.Position{{0, s.Epoch(), 7}: put(t, s, 0, 7, 100)}
	epoch := s.Epoch()
	shut(t, s)
	for _, name := range fs.Names() {
		if !strings.HasSuffix(name, ".seg") {
			if err := fs.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	fs.SetCapacity(fs.Used())
	s, rep := open(t, quiet(fs))
	if rep.Records != 1 || s.Epoch() <= epoch {
		t.Errorf("got %+v, epoch %d after %d", rep, s.Epoch(), epoch)
	}
	sameRecords(t, s, want, 100)
	if _, err := s.Append(spool.Record{Kind: spool.Data, Payload: make([]byte, 10)}); !errors.Is(err, spool.ErrFull) {
		t.Errorf("got %v, want %v", err, spool.ErrFull)
	}
	fs.SetCapacity(math.MaxInt64)
	put(t, s, 0, 8, 10)
	shut(t, s)
}

// fullDisk tests a real disk that is small and then grows.
func fullDisk(t *testing.T, dir string, grow func()) {
	t.Helper()
	opt := spool.Options{Dir: filepath.Join(dir, "spool")}
	s, _ := open(t, opt)
	var seq uint64
	const size = 7001
	at := fill(t, s, &seq, size)
	if len(at) < 10 {
		t.Fatalf("got %d records onto the disk", len(at))
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for k, p := range at { // all go, so the space comes back
		if b, err := s.Read(p, nil); err != nil || !bytes.Equal(b, payload(0, k.seq, size)) {
			t.Fatalf("got %.30q %v", b, err)
		}
		s.Ack(p)
	}
	at = fill(t, s, &seq, size)
	if len(at) < 10 {
		t.Fatalf("got %d records onto the disk, once it was free again", len(at))
	}
	grow()
	for range 5 {
		at[key{0, s.Epoch(), seq}] = put(t, s, 0, seq, size)
		seq++
	}
	n := 0
	for k, p := range at {
		if n++; n%3 == 0 {
			s.Ack(p)
			delete(at, k)
		}
	}
	shut(t, s)
	s, rep := open(t, opt)
	if rep.Records != uint64(len(at)) || rep.Corrupt != 0 || rep.Truncated != 0 {
		t.Errorf("got %+v, want %d records", rep, len(at))
	}
	sameRecords(t, s, at, size)
	shut(t, s)
}
