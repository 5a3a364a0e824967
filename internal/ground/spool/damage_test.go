package spool_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

var everyByte = flag.Bool("everybyte", false, "damage every byte of a spool of 1 MiB, which takes an hour")

// A specimen is a spool in memory with known bytes.
type specimen struct {
	fs      *vfstest.FS
	records []specimenRecord
	files   map[string]int64 // where the last record ends
}

type specimenRecord struct {
	key
	count    int
	payload  []byte
	file     string
	from, to int64
	first    bool // of its lane
	last     bool
}

// newSpecimen writes a spool of about size bytes.
func newSpecimen(t *testing.T, size, record int) *specimen {
	t.Helper()
	sp := &specimen{fs: vfstest.New(), files: make(map[string]int64)}
	opt := quiet(sp.fs)
	opt.SegmentBytes = int64(size / 3)
	s, _ := open(t, opt)
	seq := make(map[uint16]uint64)
	lastOf := make(map[uint16]int)
	for i, total := 0, 0; total < size; i++ {
		lane, count := uint16(i%2), i%4+1
		b := payload(lane, seq[lane], record/2+i*37%record)
		p, err := s.Append(spool.Record{Kind: spool.Data, Lane: lane, Epoch: s.Epoch(), Seq: seq[lane], Count: uint32(count), Payload: b})
		if err != nil {
			t.Fatal(err)
		}
		_, had := lastOf[lane]
		lastOf[lane] = i
		var number uint64
		var from int64
		if _, err := fmt.Sscanf(p.String(), "%x+%d", &number, &from); err != nil {
			t.Fatal(err)
		}
		r := specimenRecord{
			key: key{lane, s.Epoch(), seq[lane]}, count: count, payload: b, first: !had,
			file: fmt.Sprintf("%s/%016x.seg", dir, number), from: from, to: from + p.Size(),
		}
		sp.records = append(sp.records, r)
		sp.files[r.file] = r.to
		seq[lane] += uint64(count)
		total += int(p.Size())
	}
	for _, i := range lastOf {
		sp.records[i].last = true
	}
	shut(t, s)
	return sp
}

// withoutCheckpoints returns a copy that knows only its segments.
func (sp *specimen) withoutCheckpoints(t *testing.T) *specimen {
	t.Helper()
	c := *sp
	c.fs = sp.fs.Clone()
	for _, name := range c.fs.Names() {
		if strings.Contains(name, "checkpoint") {
			if err := c.fs.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &c
}

// reopen opens a damaged copy and compares its records with those for which gone is
// false.
func (sp *specimen) reopen(t *testing.T, fs *vfstest.FS, what string, gone func(specimenRecord) bool) spool.Recovery {
	t.Helper()
	s, rep := open(t, quiet(fs))
	got, _ := recovered(t, s)
	for _, r := range sp.records {
		b, ok := got[r.key]
		if gone(r) {
			if ok {
				t.Fatalf("%s: %v came back", what, r.key)
			}
			continue
		}
		if !ok || !bytes.Equal(b, r.payload) {
			t.Fatalf("%s: got %.20q, want %v; %+v", what, b, r.key, rep)
		}
		delete(got, r.key)
	}
	if len(got) != 0 {
		t.Fatalf("%s: got %v, which were never written", what, got)
	}
	shut(t, s)
	// Once is enough: the next start finds everything in order.
	s, again := open(t, quiet(fs))
	if again.Records != rep.Records || again.LostEvents != 0 || again.Truncated != 0 || again.Corrupt > 1 {
		t.Fatalf("%s: got %+v at the second start, after %+v", what, again, rep)
	}
	shut(t, s)
	return rep
}

// eachDamage calls f with every place to damage.
func (sp *specimen) eachDamage(stride int64, f func(file string, off int64)) {
	for _, file := range slices.Sorted(func(yield func(string) bool) {
		for name := range sp.files {
			if !yield(name) {
				return
			}
		}
	}) {
		for off := int64(0); off < sp.files[file]; off += stride {
			f(file, off)
		}
	}
}

func damageSize() (size, record int, stride int64) {
	if *everyByte {
		return 1 << 20, 40_000, 1
	}
	if invariant.Race {
		return 2400, 200, 7 // it sees the same at each byte
	}
	return 2400, 200, 1
}

// TestBitFlips is the first half of row 9: a damaged byte loses only its record, which
// is counted.
func TestBitFlips(t *testing.T) {
	size, record, stride := damageSize()
	known := newSpecimen(t, size, record)
	for name, sp := range map[string]*specimen{"with checkpoint": known, "without": known.withoutCheckpoints(t)} {
		t.Run(name, func(t *testing.T) {
			sp.eachDamage(stride, func(file string, off int64) {
				fs := sp.fs.Clone()
				b := fs.Content(file)
				b[off] ^= 1 << (off % 8)
				fs.SetContent(file, b)
				what := fmt.Sprintf("%s byte %d", file, off)
				var lost specimenRecord
				rep := sp.reopen(t, fs, what, func(r specimenRecord) bool {
					hit := r.file == file && r.from <= off && off < r.to
					if hit {
						lost = r
					}
					return hit
				})
				tail := lost.to == sp.files[file]
				switch {
				case sp == known || !tail:
					if rep.Corrupt != 1 || rep.Truncated != 0 {
						t.Fatalf("%s: got %+v, want one damaged place", what, rep)
					}
				case rep.Truncated == 0: // as far as can be known, the write was interrupted
					t.Fatalf("%s: got %+v, want something cut off", what, rep)
				}
				want := uint64(lost.count)
				if sp != known && (lost.first || lost.last || tail) {
					// Only the neighbours tell how many there were.
					if rep.LostEvents > want {
						t.Fatalf("%s: got %d lost, want %d at most", what, rep.LostEvents, want)
					}
				} else if rep.LostEvents != want {
					t.Fatalf("%s: got %d lost, want %d; %+v", what, rep.LostEvents, want, rep)
				}
				if sp == known && lost.count > 0 && len(rep.Quarantined) != 1 {
					t.Fatalf("%s: got %v in quarantine, want 1 file", what, rep.Quarantined)
				}
			})
		})
	}
}

// TestTruncation is the second half: if the end is missing, everything before it comes
// back, and the rest is counted.
func TestTruncation(t *testing.T) {
	size, record, stride := damageSize()
	known := newSpecimen(t, size, record)
	for name, sp := range map[string]*specimen{"with checkpoint": known, "without": known.withoutCheckpoints(t)} {
		t.Run(name, func(t *testing.T) {
			sp.eachDamage(stride, func(file string, off int64) {
				fs := sp.fs.Clone()
				fs.SetContent(file, fs.Content(file)[:off])
				what := fmt.Sprintf("%s cut at %d", file, off)
				lost := uint64(0)
				rep := sp.reopen(t, fs, what, func(r specimenRecord) bool {
					gone := r.file == file && r.to > off
					if gone {
						lost += uint64(r.count)
					}
					return gone
				})
				if sp == known && (rep.LostEvents != lost || rep.Corrupt == 0) {
					t.Fatalf("%s: got %+v, want %d lost", what, rep, lost)
				}
				if rep.LostEvents > lost {
					t.Fatalf("%s: got %d lost, want %d at most", what, rep.LostEvents, lost)
				}
			})
		})
	}
}

// TestMissingFile counts the events of a file that another program has removed, the
// oldest one too, with the checkpoint. Without a checkpoint they cannot be counted.
func TestMissingFile(t *testing.T) {
	size, record, _ := damageSize()
	known := newSpecimen(t, size, record)
	for name, sp := range map[string]*specimen{"with checkpoint": known, "without": known.withoutCheckpoints(t)} {
		t.Run(name, func(t *testing.T) {
			for file := range sp.files {
				fs := sp.fs.Clone()
				if err := fs.Remove(file); err != nil {
					t.Fatal(err)
				}
				lost := uint64(0)
				rep := sp.reopen(t, fs, "without "+file, func(r specimenRecord) bool {
					if r.file == file {
						lost += uint64(r.count)
					}
					return r.file == file
				})
				if sp == known && (rep.LostEvents != lost || rep.Corrupt != 1 || lost == 0) {
					t.Errorf("without %s: got %+v, want %d lost", file, rep, lost)
				}
				if sp != known && rep.LostEvents > lost {
					t.Errorf("without %s: got %+v, want %d lost at most", file, rep, lost)
				}
			}
		})
	}
}

// TestCheckpointDamage damages each slot, and both, anywhere: no record is lost, and
// acknowledged ones may come back.
func TestCheckpointDamage(t *testing.T) {
	fs := vfstest.New()
	s, _ := open(t, quiet(fs))
	var at []spool.Position
	for seq := range uint64(10) {
		at = append(at, put(t, s, 0, seq, 50))
	}
	shut(t, s)
	s, _ = open(t, quiet(fs))
	for i, p := range slices.Collect(func(yield func(spool.Position) bool) {
		for p := range s.Recovered {
			if !yield(p) {
				return
			}
		}
	}) {
		if i%2 == 0 {
			s.Ack(p)
		}
	}
	epoch := s.Epoch()
	shut(t, s)
	if len(at) != 10 {
		t.Fatal("no records")
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for off := range 200 {
		for _, damage := range [][]string{{"a"}, {"b"}, {"a", "b"}} {
			fs := fs.Clone()
			for _, slot := range damage {
				name := dir + "/checkpoint." + slot
				b := fs.Content(name)
				if rnd.IntN(4) == 0 {
					b = b[:off]
				} else {
					b[off] ^= byte(1 + rnd.IntN(255))
				}
				fs.SetContent(name, b)
			}
			s, rep := open(t, quiet(fs))
			got, _ := recovered(t, s)
			for k := range got {
				if k.seq%2 != 0 {
					delete(got, k)
				}
			}
			if rep.Records-uint64(len(got)) != 5 || rep.LostEvents != 0 || rep.Corrupt != 0 {
				t.Fatalf("%v at %d: got %+v, %d acknowledged", damage, off, rep, len(got))
			}
			if s.Epoch() <= epoch {
				t.Fatalf("%v at %d: got epoch %d after %d", damage, off, s.Epoch(), epoch)
			}
			shut(t, s)
		}
	}
}

// TestUnknownVersion shows that files of a newer version are not touched.
func TestUnknownVersion(t *testing.T) {
	sp := newSpecimen(t, 3000, 200)
	file := sp.records[0].file
	newer := spool.SegmentHeader(2, 1, 1)
	newer = append(newer, "something else altogether"...)
	sp.fs.SetContent(file, newer)
	rep := sp.reopen(t, sp.fs, "newer", func(r specimenRecord) bool { return r.file == file })
	if !slices.Equal(rep.Untouched, []string{file}) || rep.Corrupt != 0 {
		t.Errorf("got %+v, want %s untouched", rep, file)
	}
	if got := sp.fs.Content(file); !bytes.Equal(got, newer) {
		t.Errorf("got %q, want it as it was", got)
	}
}

// TestUnreadable shows that a spool opens on a disk that cannot be read, and keeps the
// file, which may be readable later.
func TestUnreadable(t *testing.T) {
	sp := newSpecimen(t, 3000, 200)
	file := sp.records[0].file
	sp.fs.SetFail(func(op vfstest.Op, name string) error {
		if op == vfstest.Read && name == file {
			return syscall.EIO
		}
		return nil
	})
	s, rep := open(t, quiet(sp.fs))
	got, at := recovered(t, s)
	for _, r := range sp.records {
		if _, ok := got[r.key]; ok != (r.file != file) {
			t.Errorf("%v in %s: got %t", r.key, r.file, ok)
		}
	}
	for _, p := range at {
		s.Ack(p)
	}
	shut(t, s)
	if rep.Corrupt == 0 || len(rep.Problems) == 0 {
		t.Errorf("got %+v, want the damage reported", rep)
	}
	sp.fs.SetFail(nil)
	s, _ = open(t, quiet(sp.fs))
	got, _ = recovered(t, s)
	for _, r := range sp.records {
		if _, ok := got[r.key]; ok != (r.file == file) {
			t.Errorf("%v in %s, read another day: got %t", r.key, r.file, ok)
		}
	}
	shut(t, s)
}

// TestReadDamaged checks that Read reports damage, and Recovered as well after the
// start.
func TestReadDamaged(t *testing.T) {
	sp := newSpecimen(t, 3000, 200)
	s, _ := open(t, quiet(sp.fs))
	hit := sp.records[1]
	b := sp.fs.Content(hit.file)
	b[hit.from+40] ^= 1
	sp.fs.SetContent(hit.file, b)
	got, _ := recovered(t, s)
	if _, ok := got[hit.key]; ok || len(got) != len(sp.records)-1 {
		t.Errorf("got %d records, want %d", len(got), len(sp.records)-1)
	}
	if n := s.Stats().Corrupt; n != 1 {
		t.Errorf("got %d damaged places, want 1", n)
	}
	shut(t, s)
}

// TestManyCandidates shows that a damaged record that is full of record headers does not
// delay the start.
func TestManyCandidates(t *testing.T) {
	fs := vfstest.New()
	opt := quiet(fs)
	opt.SegmentBytes = 4 << 20
	s, _ := open(t, opt)
	evil := bytes.Repeat([]byte("SPOL\x00\x00\x20\x00"), 8<<10) // each of 2 MiB
	if _, err := s.Append(spool.Record{Kind: spool.Data, Count: 1, Payload: evil}); err != nil {
		t.Fatal(err)
	}
	put(t, s, 0, 1, 3<<20)
	shut(t, s)
	name := dir + "/0000000000000001.seg"
	b := fs.Content(name)
	b[32] ^= 1
	fs.SetContent(name, b)
	s, rep := open(t, opt)
	if rep.Records != 1 || rep.Corrupt != 1 || rep.LostEvents != 1 {
		t.Errorf("got %+v, want the second record", rep)
	}
	shut(t, s)
}
