package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

func TestMain(m *testing.M) { leak.Main(m) }

const dir = "spool"

// quiet returns options without fsyncs and checkpoints by time.
func quiet(fs vfs.FS) spool.Options {
	return spool.Options{Dir: dir, FS: fs, SegmentBytes: 4096, SyncEvery: -1, SyncBytes: -1, CheckpointEvery: time.Hour}
}

func open(t *testing.T, opt spool.Options) (*spool.Spool, spool.Recovery) {
	t.Helper()
	s, rep, err := spool.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s, rep
}

func shut(t *testing.T, s *spool.Spool) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// payload returns the payload of a record, which is unique in length and content.
func payload(lane uint16, seq uint64, size int) []byte {
	b := fmt.Appendf(nil, "lane %d seq %d ", lane, seq)
	for i := 0; len(b) < size; i++ {
		b = append(b, byte(uint64(i)*31+seq*7+uint64(lane)))
	}
	return b
}

func put(t *testing.T, s *spool.Spool, lane uint16, seq uint64, size int) spool.Position {
	t.Helper()
	p, err := s.Append(spool.Record{Kind: spool.Data, Lane: lane, Epoch: s.Epoch(), Seq: seq, Count: 1, Payload: payload(lane, seq, size)})
	if err != nil {
		t.Fatalf("append %d/%d: %v", lane, seq, err)
	}
	return p
}

// A key identifies a record.
type key struct {
	lane  uint16
	epoch uint64
	seq   uint64
}

// recovered collects the recovered records.
func recovered(t *testing.T, s *spool.Spool) (map[key][]byte, map[key]spool.Position) {
	t.Helper()
	got, at := make(map[key][]byte), make(map[key]spool.Position)
	for p, r := range s.Recovered {
		k := key{r.Lane, r.Epoch, r.Seq}
		got[k], at[k] = bytes.Clone(r.Payload), p
	}
	return got, at
}

func TestRoundTrip(t *testing.T) {
	for name, opt := range map[string]spool.Options{
		"disk":   {Dir: filepath.Join(t.TempDir(), "a", "b"), SegmentBytes: 4096},
		"memory": {Dir: dir, FS: vfstest.New(), SegmentBytes: 4096},
	} {
		t.Run(name, func(t *testing.T) {
			s, rep := open(t, opt)
			if rep.Records != 0 || len(rep.Problems) != 0 {
				t.Errorf("got %+v of an empty folder", rep)
			}
			first := s.Epoch()
			var at []spool.Position
			for seq := range uint64(100) {
				at = append(at, put(t, s, uint16(seq%3), seq, int(seq*7)))
			}
			for seq, p := range at {
				got, err := s.Read(p, []byte("before "))
				if want := "before " + string(payload(uint16(seq%3), uint64(seq), seq*7)); err != nil || string(got) != want {
					t.Fatalf("got %.40q %v, want %.40q", got, err, want)
				}
			}
			for seq := 0; seq < 100; seq += 2 {
				s.Ack(at[seq])
				s.Ack(at[seq]) // does nothing
			}
			if st := s.Stats(); st.LiveRecords != 50 || st.LiveEvents != 50 || st.Segments < 5 {
				t.Errorf("got %+v, want 50 live", st)
			}
			shut(t, s)
			shut(t, s) // says the same

			s, rep = open(t, opt)
			if rep.Records != 50 || rep.Events != 50 || rep.Corrupt != 0 || rep.LostEvents != 0 || rep.Truncated != 0 || len(rep.Problems) != 0 {
				t.Errorf("got %+v, want 50 whole records", rep)
			}
			if s.Epoch() <= first {
				t.Errorf("got epoch %d, want more than %d", s.Epoch(), first)
			}
			next := uint64(1)
			for p, r := range s.Recovered {
				if r.Seq != next || r.Epoch != first || r.Kind != spool.Data || r.Lane != uint16(next%3) || r.Count != 1 || p.Count() != 1 ||
					!bytes.Equal(r.Payload, payload(r.Lane, r.Seq, int(r.Seq*7))) {
					t.Fatalf("got %d/%d, want seq %d", r.Lane, r.Seq, next)
				}
				next += 2
				s.Ack(p)
			}
			if next != 101 {
				t.Errorf("got up to seq %d, want 99", next-2)
			}
			shut(t, s)

			s, rep = open(t, opt)
			if st := s.Stats(); rep.Records != 0 || st.Segments != 0 || st.Bytes != 0 {
				t.Errorf("got %+v %+v, want nothing left", rep, st)
			}
			shut(t, s)
		})
	}
}

// TestClosed shows what a closed spool refuses, and that nothing hangs.
func TestClosed(t *testing.T) {
	s, _ := open(t, quiet(vfstest.New()))
	p := put(t, s, 1, 1, 10)
	shut(t, s)
	if _, err := s.Append(spool.Record{}); !errors.Is(err, spool.ErrClosed) {
		t.Errorf("append: got %v, want %v", err, spool.ErrClosed)
	}
	if _, err := s.Read(p, nil); !errors.Is(err, spool.ErrClosed) {
		t.Errorf("read: got %v, want %v", err, spool.ErrClosed)
	}
	if err := s.Sync(); !errors.Is(err, spool.ErrClosed) {
		t.Errorf("sync: got %v, want %v", err, spool.ErrClosed)
	}
	s.Ack(p)
	ran := false
	s.Durable(p, func(err error) { ran = err == nil })
	if !ran {
		t.Error("a callback for a durable record did not run with nil")
	}
}

func TestTwoOpeners(t *testing.T) {
	opt := spool.Options{Dir: t.TempDir()}
	s, _ := open(t, opt)
	_, _, err := spool.Open(opt)
	if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), opt.Dir) {
		t.Errorf("got %v, want %v for %s", err, vfs.ErrLocked, opt.Dir)
	}
	shut(t, s)
	s, _ = open(t, opt)
	shut(t, s)
}

func TestUnusableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	s, _ := open(t, spool.Options{Dir: filepath.Dir(file)})
	shut(t, s)
	if _, _, err := spool.Open(spool.Options{Dir: filepath.Join(filepath.Dir(file), "lock")}); err == nil || !strings.Contains(err.Error(), "folder of its own") {
		t.Errorf("got %v, want a hint", err)
	}
	if _, _, err := spool.Open(spool.Options{}); err == nil {
		t.Error("got no error without a folder")
	}
}

// TestDurable shows that callbacks run once, in order, and never early.
func TestDurable(t *testing.T) {
	fs := vfstest.New()
	s, _ := open(t, quiet(fs))
	var mu sync.Mutex
	var ran []uint64
	var at []spool.Position
	for seq := range uint64(50) {
		p := put(t, s, 0, seq, 200)
		at = append(at, p)
		s.Durable(p, func(err error) {
			if err != nil {
				t.Errorf("seq %d: %v", seq, err)
			}
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, seq)
		})
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for i, seq := range ran {
		if seq != uint64(i) {
			t.Fatalf("got order %v", ran)
		}
	}
	if len(ran) != 50 {
		t.Errorf("got %d callbacks, want 50", len(ran))
	}
	late := make(chan error, 1)
	s.Durable(at[3], func(err error) { late <- err })
	if err := <-late; err != nil {
		t.Errorf("got %v for a durable record", err)
	}
	shut(t, s)
}

// TestSyncByTimeAndBytes shows the two triggers of a group fsync.
func TestSyncByTimeAndBytes(t *testing.T) {
	for name, set := range map[string]func(*spool.Options){
		"time":  func(o *spool.Options) { o.SyncEvery = time.Millisecond },
		"bytes": func(o *spool.Options) { o.SyncBytes = 100 },
	} {
		t.Run(name, func(t *testing.T) {
			opt := quiet(vfstest.New())
			set(&opt)
			s, _ := open(t, opt)
			done := make(chan error, 1)
			s.Durable(put(t, s, 0, 0, 200), func(err error) { done <- err })
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := s.Stats().Syncs; n == 0 {
				t.Errorf("got %d fsyncs, want some", n)
			}
			shut(t, s)
		})
	}
}

// TestSegmentsGo shows that files are deleted when all their records are acknowledged.
func TestSegmentsGo(t *testing.T) {
	fs := vfstest.New()
	opt := quiet(fs)
	opt.SyncBytes = 1
	s, _ := open(t, opt)
	var at []spool.Position
	for seq := range uint64(60) {
		at = append(at, put(t, s, 0, seq, 300))
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	before := s.Stats().Segments
	for _, p := range at[1:] {
		s.Ack(p)
	}
	if err := s.Sync(); err != nil { // twice: once it has looked, once it has removed
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats().Segments; got != 2 || before < 5 {
		t.Errorf("got %d segments of %d, want 2: the oldest, and the newest that is written", got, before)
	}
	if _, err := s.Read(at[20], nil); !errors.Is(err, spool.ErrGone) {
		t.Errorf("got %v, want %v", err, spool.ErrGone)
	}
	if got, err := s.Read(at[0], nil); err != nil || !bytes.Equal(got, payload(0, 0, 300)) {
		t.Errorf("got %.20q %v", got, err)
	}
	shut(t, s)
}

// TestMaxBytes shows that the limit holds, and that acknowledgements make room even in
// the active segment.
func TestMaxBytes(t *testing.T) {
	opt := quiet(vfstest.New())
	opt.MaxBytes = 64 << 10
	s, _ := open(t, opt)
	for round := range 5 {
		var at []spool.Position
		for seq := uint64(0); ; seq++ {
			p, err := s.Append(spool.Record{Kind: spool.Data, Count: 1, Seq: seq, Payload: make([]byte, 1000)})
			if errors.Is(err, spool.ErrFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, p)
		}
		if len(at) < 55 || s.Stats().Bytes > opt.MaxBytes {
			t.Errorf("round %d: got %d records, %d bytes", round, len(at), s.Stats().Bytes)
		}
		for _, p := range at {
			s.Ack(p)
		}
	}
	shut(t, s)
}

// TestLargeRecord shows that a record may be longer than a segment.
func TestLargeRecord(t *testing.T) {
	fs := vfstest.New()
	s, _ := open(t, quiet(fs))
	put(t, s, 0, 1, 100)
	p := put(t, s, 0, 2, 3<<20)
	put(t, s, 0, 3, 100)
	if got, err := s.Read(p, nil); err != nil || len(got) != 3<<20 {
		t.Errorf("got %d bytes %v", len(got), err)
	}
	shut(t, s)
	s, rep := open(t, quiet(fs))
	if got, _ := recovered(t, s); len(got) != 3 || rep.Records != 3 {
		t.Errorf("got %d records, %+v", len(got), rep)
	}
	shut(t, s)
}
