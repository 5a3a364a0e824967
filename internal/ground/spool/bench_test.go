package spool_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// TestAllocs checks the budgets: no allocation for a record, and none for its
// acknowledgement in any order.
func TestAllocs(t *testing.T) {
	if invariant.Race {
		t.Log("no budgets under the race detector")
		return
	}
	opt := quiet(nil)
	opt.Dir, opt.FS, opt.SegmentBytes = t.TempDir(), nil, 64<<20
	s, _ := open(t, opt)
	rec := spool.Record{Kind: spool.Data, Count: 10, Payload: make([]byte, 4096)}
	var at []spool.Position
	appendOne := func() {
		p, err := s.Append(rec)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, p)
	}
	at = make([]spool.Position, 0, 4000)
	appendOne() // begins the segment
	if got := testing.AllocsPerRun(1000, appendOne); got != 0 {
		t.Errorf("append: got %v allocations, want 0", got)
	}
	i := 0
	if got := testing.AllocsPerRun(400, func() {
		s.Ack(at[i+1])
		s.Ack(at[i])
		i += 2
	}); got != 0 {
		t.Errorf("acknowledge: got %v allocations, want 0", got)
	}
	buf := make([]byte, 0, 8192)
	if got := testing.AllocsPerRun(100, func() {
		if _, err := s.Read(at[len(at)-1], buf); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("read: got %v allocations, want 0", got)
	}
	shut(t, s)
}

// TestTimes shows when fsyncs are made and checkpoints written, and that nothing happens
// otherwise.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		s, _ := open(t, spool.Options{Dir: dir, FS: fs, SegmentBytes: 4096, SyncEvery: 10 * time.Millisecond, CheckpointEvery: 100 * time.Millisecond})
		synctest.Wait()
		start := time.Now()
		var done time.Duration
		p := put(t, s, 0, 0, 100)
		s.Durable(p, func(error) { done = time.Since(start) })
		<-time.After(time.Second)
		synctest.Wait()
		if done != 10*time.Millisecond {
			t.Errorf("got it durable after %v, want 10ms", done)
		}
		var ops atomic.Int64
		fs.SetFail(func(op vfstest.Op, name string) error { ops.Add(1); return nil })
		<-time.After(time.Hour)
		synctest.Wait()
		if n := ops.Load(); n != 0 {
			t.Errorf("got %d operations in an idle hour, want none", n)
		}
		s.Ack(p)
		<-time.After(99 * time.Millisecond)
		synctest.Wait()
		early := ops.Load()
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		if n := ops.Load(); early != 0 || n == 0 {
			t.Errorf("got %d operations before and %d after 100ms, want none and some", early, n)
		}
		fs.SetFail(nil)
		shut(t, s)
	})
}

func BenchmarkAppend64K(b *testing.B) {
	for name, sync := range map[string]bool{"sync": true, "nosync": false} {
		b.Run(name, func(b *testing.B) {
			s, _, err := spool.Open(spool.Options{Dir: b.TempDir(), SyncEvery: -1, SyncBytes: -1})
			if err != nil {
				b.Fatal(err)
			}
			rec := spool.Record{Kind: spool.Data, Count: 400, Payload: make([]byte, 64<<10)}
			b.SetBytes(int64(len(rec.Payload)))
			b.ReportAllocs()
			for b.Loop() {
				p, err := s.Append(rec)
				if err != nil {
					b.Fatal(err)
				}
				if sync {
					if err := s.Sync(); err != nil {
						b.Fatal(err)
					}
				}
				s.Ack(p)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkAck(b *testing.B) {
	s, _, err := spool.Open(quiet(vfstest.New()))
	if err != nil {
		b.Fatal(err)
	}
	p, err := s.Append(spool.Record{Kind: spool.Data, Payload: []byte("x")})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Ack(p) // after the first, what finding it costs
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkRecovery(b *testing.B) {
	opt := spool.Options{Dir: b.TempDir()}
	s, _, err := spool.Open(opt)
	if err != nil {
		b.Fatal(err)
	}
	rec := spool.Record{Kind: spool.Data, Count: 400, Payload: make([]byte, 64<<10)}
	const records = 1000
	for range records {
		if _, err := s.Append(rec); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(records * int64(len(rec.Payload)))
	for b.Loop() {
		s, rep, err := spool.Open(opt)
		if err != nil || rep.Records != records {
			b.Fatal(rep, err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
