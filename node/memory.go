package node

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// Memory is how many bytes a program may hold for what has come and is not done: bodies
// that are read, messages in flight, what waits for a slow reader, payloads of forked
// processes. There is one for all nodes. No kind gets more than half of it, and an eighth
// is kept for what is under way, see [Account.Hold].
//
// The nil Memory has no limit. Any goroutine may call its methods.
type Memory struct {
	limit int64
	block int64 // what an account borrows, at least
	lent  atomic.Int64

	// large are the bytes of large values that were taken and freed since cycle, a
	// collection.
	large   atomic.Int64
	garbage struct {
		sync.Mutex
		cycle uint64
	}

	mu struct {
		sync.Mutex
		kinds map[string]*atomic.Int64 // lent to them
	}
}

// NewMemory returns a Memory of so many bytes.
func NewMemory(bytes int64) *Memory {
	m := &Memory{limit: bytes, block: min(256<<10, bytes/64+1)}
	m.mu.kinds = make(map[string]*atomic.Int64)
	return m
}

// Limit returns the bytes; 0 for no limit.
func (m *Memory) Limit() int64 {
	if m == nil {
		return 0
	}
	return m.limit
}

// Account opens an account of a kind. Close it when what it counts for has ended.
func (m *Memory) Account(kind string) *Account {
	if m == nil {
		return &Account{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.mu.kinds[kind]
	if k == nil {
		k = new(atomic.Int64)
		m.mu.kinds[kind] = k
	}
	return &Account{memory: m, kind: k}
}

// An Account counts the bytes that a node, or what several nodes share, holds of a
// [Memory]. It borrows blocks, so that most calls touch nothing that others use. Any
// goroutine may call its methods. The zero Account only counts.
type Account struct {
	memory *Memory
	kind   *atomic.Int64
	held   atomic.Int64
	lent   atomic.Int64
}

// Take counts n bytes that are about to be held. It reports false, and counts nothing, if
// the kind or the program has none left: then only what brings more is refused or waits,
// outside of processes; inside, the packet fails with the status 503.
func (a *Account) Take(n int64) bool {
	return a.TakeWithin(n, math.MaxInt64)
}

// TakeWithin is Take, and refuses what the account would hold past most, too.
func (a *Account) TakeWithin(n, most int64) bool {
	held := a.held.Load()
	for ; ; held = a.held.Load() {
		if held+n > most {
			return false
		}
		if a.held.CompareAndSwap(held, held+n) {
			break
		}
	}
	if held+n <= a.lent.Load() || a.memory == nil || a.borrow(false) {
		a.memory.collect(n)
		return true
	}
	a.free(n)
	return false
}

// Hold counts n bytes that are held already, whatever the limit.
func (a *Account) Hold(n int64) {
	if held := a.held.Add(n); held > a.lent.Load() && a.memory != nil {
		a.borrow(true)
	}
	a.memory.collect(n)
}

// Free counts n bytes that are not held any more.
func (a *Account) Free(n int64) {
	if a.memory.isLarge(n) {
		a.memory.large.Add(n)
	}
	a.free(n)
}

func (a *Account) free(n int64) {
	held := a.held.Add(-n)
	if a.memory != nil && a.lent.Load()-held >= 2*a.memory.block {
		a.repay(a.memory.block)
	}
}

// Full reports whether the kind or the program has no bytes left.
func (a *Account) Full() bool {
	m := a.memory
	return m != nil && (m.lent.Load() >= m.limit-m.limit/8 || a.kind.Load() >= m.limit/2) && a.held.Load() >= a.lent.Load()
}

// Held returns how many bytes are counted.
func (a *Account) Held() int64 { return a.held.Load() }

// Close gives back what was borrowed. What is held is not counted any more.
func (a *Account) Close() {
	a.held.Store(0)
	if a.memory != nil {
		a.repay(0)
	}
}

// borrow lends the account what it holds, and reports false if there is not as much.
func (a *Account) borrow(anyway bool) bool {
	m := a.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	more := a.held.Load() - a.lent.Load()
	if more <= 0 {
		return true
	}
	left := min(m.limit-m.limit/8-m.lent.Load(), m.limit/2-a.kind.Load())
	if more > left && !anyway {
		return false
	}
	m.lend(a, max(more, min(m.block, left)))
	return true
}

// repay takes back what the account does not need, except for so many bytes.
func (a *Account) repay(keep int64) {
	m := a.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if more := a.lent.Load() - max(0, a.held.Load()) - keep; more > 0 {
		m.lend(a, -more)
	}
}

// lend moves bytes. The caller holds the lock.
func (m *Memory) lend(a *Account, n int64) {
	a.lent.Add(n)
	a.kind.Add(n)
	m.lent.Add(n)
}

// isLarge reports whether so many bytes are worth a collection.
func (m *Memory) isLarge(n int64) bool { return m != nil && n >= max(1<<20, m.limit/64) }

// collect counts n bytes that were taken, and collects the garbage if they are large.
func (m *Memory) collect(n int64) {
	if m.isLarge(n) {
		m.large.Add(n)
		m.Collect()
	}
}

// Collect runs the garbage collection if an eighth of the memory was taken or freed in large
// values since the last: what makes them is faster than a collection that runs at the same time.
// A source of messages that were 6 MB each when decoded took 512 MiB, and held 128. Take and
// Hold do so by themselves; what takes the memory of a large value in small steps calls it first.
func (m *Memory) Collect() {
	if m == nil || m.large.Load() < m.limit/8 {
		return
	}
	m.garbage.Lock()
	defer m.garbage.Unlock()
	if m.large.Load() < m.limit/8 {
		return
	}
	if cycles() <= m.garbage.cycle+1 { // of two, one has begun since
		runtime.GC()
	}
	m.garbage.cycle = cycles()
	m.large.Store(0)
}

// cycles returns how many garbage collections there were.
func cycles() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
