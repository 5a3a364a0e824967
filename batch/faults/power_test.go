package faults

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// on gives a spool another file system. The field is not exported, because users do not
// need it, and an export_test.go of package batch is not visible here.
func on(s *batch.Spool, fs vfs.FS) *batch.Spool {
	field := reflect.ValueOf(s).Elem().FieldByName("fs")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(fs))
	return s
}

// A machine is a processor on a disk that can lose its power.
type machine struct {
	*rig
	disk    *vfstest.FS
	mu      sync.Mutex
	off     bool                // without power: nothing is sent or reported
	durable map[uint64]struct{} // events that were reported as durable
}

// boot starts the processor of the machine, with files of segment bytes.
func boot(t *testing.T, l *oracle.Ledger, disk *vfstest.FS, segment int64, durable map[uint64]struct{}, send batch.SendFunc) *machine {
	t.Helper()
	m := &machine{disk: disk, durable: durable}
	m.rig = startOn(t, l, config{
		Send: func(ctx context.Context, b *batch.Batch) batch.Outcome {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.off {
				return batch.Outcome{Err: errors.New("no power")}
			}
			return send(ctx, b)
		},
		Producer: "machine",
		Trigger:  batch.Trigger{Count: 20, Linger: time.Millisecond},
		Lanes:    batch.Lanes[event]{Order: batch.OrderPerKey, Max: 3},
		Spool:    on(&batch.Spool{Dir: "spool", WriteAhead: true, SyncEvery: time.Millisecond, SegmentBytes: segment}, disk),
	})
	return m
}

// work adds events until ctx ends or there are enough, and notes which are reported as
// durable.
func (m *machine) work(ctx context.Context, producers int) {
	var all sync.WaitGroup
	for k := range producers {
		tickets := make(chan acked, 50)
		all.Go(func() {
			defer close(tickets)
			for range 1000 {
				e := m.ledger.Next(uint64(k), 100)
				ticket, err := m.AddAck(ctx, e)
				if m.ledger.Added(e, err) != nil {
					return
				}
				tickets <- acked{e, ticket}
			}
		})
		all.Go(func() {
			for a := range tickets {
				if a.ticket.Wait(ctx, batch.StateDurable) != nil {
					continue // the power is gone
				}
				m.mu.Lock()
				if !m.off {
					m.durable[a.e.ID] = struct{}{}
				}
				m.mu.Unlock()
			}
		})
	}
	all.Wait()
}

// crash switches the power off and returns the disk as it is then.
func (m *machine) crash(rnd *rand.Rand) *vfstest.FS {
	m.mu.Lock()
	m.off = true
	after := m.disk.Crash(rnd)
	m.mu.Unlock()
	m.discard()
	return after
}

// kill ends the process between two operations on its files, and returns the disk as it is
// then.
func (m *machine) kill() *vfstest.FS {
	m.mu.Lock()
	m.off = true
	m.disk.SetFail(func(vfstest.Op, string) error { return errors.New("killed") })
	m.mu.Unlock()
	m.discard()
	return m.disk.Clone()
}

// discard ends the goroutines of a machine.
func (m *machine) discard() {
	m.unwatch()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = m.Close(ctx) // without power, the result does not matter
}

// forget drops references of a machine: a test has hundreds.
func (m *machine) forget() { m.Processor, m.disk = nil, nil }

// workFor works for d, calls stop, and returns its disk.
func (m *machine) workFor(ctx context.Context, d time.Duration, stop func() *vfstest.FS) *vfstest.FS {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { m.work(ctx, 3) })
	<-ctx.Done()
	disk := stop()
	work.Wait()
	m.forget()
	return disk
}

// flaky returns a SendFunc to a store that fails for one batch in n, and loses the
// response for another one. It is called under the lock of the machine.
func flaky(store *oracle.Store, rnd *rand.Rand, n int) batch.SendFunc {
	return func(_ context.Context, b *batch.Batch) batch.Outcome {
		switch rnd.IntN(n) {
		case 0:
			return batch.Outcome{Err: errors.New("no")}
		case 1:
			give(store, b)
			return batch.Outcome{Err: errors.New("no answer")}
		}
		return give(store, b)
	}
}

// survives checks that all events that were reported as durable have arrived.
func survives(t *testing.T, store *oracle.Store, l *oracle.Ledger, durable map[uint64]struct{}) {
	t.Helper()
	copies := store.Copies()
	lost := 0
	for id := range durable {
		if copies[id] == 0 {
			if lost++; lost <= 5 {
				t.Errorf("event %d was durable, and never arrived", id)
			}
		}
	}
	if len(durable) == 0 {
		t.Error("no event was durable")
	}
	t.Logf("%d events durable, %d taken, %d lost", len(durable), len(copies), lost)
	for _, problem := range oracle.Judge(store, l, oracle.Promise{Order: true, Doubt: true, Lost: math.MaxInt32}) {
		t.Error(problem)
	}
}

// TestFault06_Once: a process is killed between any two operations on its files, many
// times. A receiver that remembers keys takes each event once. Small files are deleted all
// the time, large ones rarely.
func TestFault06_Once(t *testing.T) {
	for _, segment := range []int64{8 << 10, 1 << 20} {
		t.Run(name(segment), func(t *testing.T) {
			t.Parallel()
			rnd, answers := random(t), random(t)
			store := oracle.NewStore(oracle.Rules{})
			send := flaky(store, answers, 10)
			ledger := new(oracle.Ledger)
			durable := make(map[uint64]struct{})
			disk := vfstest.New()
			for range scale(20, 300) {
				m := boot(t, ledger, disk, segment, durable, send)
				disk = m.workFor(t.Context(), time.Duration(rnd.IntN(60_000))*time.Microsecond, m.kill)
			}
			last := boot(t, ledger, disk, segment, durable, into(store))
			last.flush()
			last.end(patience)
			survives(t, store, ledger, durable)
			twice := 0
			for _, n := range store.Copies() {
				if n > 1 {
					twice++
				}
			}
			if twice > 0 {
				t.Errorf("%d events were taken twice, in batches the receiver did not know", twice)
			}
		})
	}
}

// TestFault07_Power: a machine loses its power many times, and its disk loses what was not
// synced. Events that were reported as durable arrive.
func TestFault07_Power(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(rnd *rand.Rand) func(vfstest.Op, string) error
	}{
		{"power", nil},
		{"and fsync fails", func(rnd *rand.Rand) func(vfstest.Op, string) error {
			return func(op vfstest.Op, _ string) error { // called under the disk's lock
				if op == vfstest.Sync && rnd.IntN(10) == 0 {
					return syscall.EIO
				}
				return nil
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rnd, answers, faults := random(t), random(t), random(t)
			store := oracle.NewStore(oracle.Rules{})
			send := flaky(store, answers, 4)
			ledger := new(oracle.Ledger)
			durable := make(map[uint64]struct{})
			disk := vfstest.New()
			for range scale(20, 300) {
				m := boot(t, ledger, disk, 16<<10, durable, send)
				if c.fail != nil {
					disk.SetFail(c.fail(faults))
				}
				disk = m.workFor(t.Context(), time.Duration(rnd.IntN(60_000))*time.Microsecond, func() *vfstest.FS { return m.crash(rnd) })
			}
			last := boot(t, ledger, disk, 16<<10, durable, into(store))
			last.flush()
			if _, s := last.end(patience); s.Delivered != s.Accepted+s.Recovered {
				t.Errorf("got %d of %d delivered", s.Delivered, s.Recovered)
			}
			survives(t, store, ledger, durable)
		})
	}
}

// TestFault08_EveryOffset: the disk is full after n bytes, for many n; then it has space
// again.
func TestFault08_EveryOffset(t *testing.T) {
	for capacity := int64(0); capacity < 40_000; capacity += int64(scale(1999, 53)) {
		t.Run(name(capacity), func(t *testing.T) {
			t.Parallel()
			fullAfter(t, capacity)
		})
	}
}

func fullAfter(t *testing.T, capacity int64) {
	v := &valve{store: oracle.NewStore(oracle.Rules{})}
	disk := vfstest.New()
	r := start(t, config{
		Send:    v.send,
		Trigger: batch.Trigger{Count: 20, Linger: time.Millisecond},
		Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey, Max: 2},
		Spool:   on(&batch.Spool{Dir: "spool", WriteAhead: true, SyncEvery: time.Millisecond, SegmentBytes: 8 << 10}, disk),
	})
	disk.SetCapacity(disk.Used() + capacity)
	var tickets []acked
	for i := range 200 {
		e := r.ledger.Next(uint64(i%4), 300)
		ticket, err := r.AddAck(t.Context(), e)
		if r.ledger.Added(e, err) != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, acked{e, ticket})
	}
	r.until("tried", func(s batch.Stats) bool { return s.Requests > 0 })
	disk.SetCapacity(math.MaxInt64)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, a := range tickets {
		if err := a.ticket.Wait(ctx, batch.StateDurable); err != nil {
			t.Fatalf("event %d is not durable, with space again: %v; %+v", a.e.ID, err, r.Stats())
		}
	}
	v.open.Store(true)
	r.allDelivered(v.store, true)
}
