package batch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"runtime"
	"strings"
	"time"
)

// settings are a checked Config without its type, defaults filled in.
type settings struct {
	send     SendFunc
	format   Format
	sep      byte
	count    int
	bytes    int64
	linger   time.Duration // negative: never
	idle     time.Duration // 0: never
	full     Policy        // never Default
	retry    Retry
	disk     *Spool
	producer string
	dead     func(context.Context, Dropped) error
	onDrop   func(Dropped)
	hooks    Hooks
	logger   *slog.Logger
	keyed    uint32 // what Lanes.Key is known by; 0 if it is unknown or not used

	maxEvents int
	maxBytes  int64
	largest   int // bytes of an event and its separator

	lanesMax    int // batches on the way, of all lanes
	laneCount   int
	laneFlights int // of one lane
	laneShards  int
	ordered     bool
	gapless     bool

	chunkEvents int
	chunkBytes  int

	ahead  bool // events are written to the spool as they come
	spills bool // events are written to the spool when memory is full
}

// settings checks c.
func (c Options[T]) settings() (settings, error) {
	s := settings{
		send:     c.Send,
		format:   c.Format,
		sep:      c.Format.separator(),
		count:    or(c.Trigger.Count, 1000),
		bytes:    int64(or(c.Trigger.Bytes, 1<<20)),
		linger:   or(c.Trigger.Linger, time.Second),
		idle:     c.Trigger.Idle,
		full:     c.Queue.Full,
		retry:    c.Retry,
		producer: c.Producer,
		dead:     c.DeadLetter,
		onDrop:   c.OnDrop,
		hooks:    c.Hooks,
		logger:   c.Log,

		maxEvents: or(c.Queue.Events, 64<<10),
		maxBytes:  or(c.Queue.Bytes, 64<<20),
		lanesMax:  or(c.Lanes.Max, 4),
		ordered:   c.Lanes.Order != OrderNone,
		gapless:   c.Lanes.Gapless,
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.retry.Initial = or(s.retry.Initial, 100*time.Millisecond)
	s.retry.Max = or(s.retry.Max, 30*time.Second)
	s.retry.MaxRetryAfter = or(s.retry.MaxRetryAfter, 2*time.Minute)
	if s.full == PolicyDefault {
		s.full = PolicyBlock
		if c.Spool != nil {
			s.full = PolicySpill
		}
	}
	if c.Spool != nil {
		disk := *c.Spool
		disk.SyncEvery = or(disk.SyncEvery, 10*time.Millisecond)
		disk.AfterAttempts = or(disk.AfterAttempts, 3)
		s.disk = &disk
		s.ahead, s.spills = disk.WriteAhead, s.full == PolicySpill
	}
	if s.producer == "" {
		var id [8]byte
		rand.Read(id[:]) // never fails, by its documentation
		s.producer = hex.EncodeToString(id[:])
	}
	err := errors.Join(
		need(c.Encode != nil, "Encode is missing: it says how an event becomes bytes"),
		need(c.Send != nil, "Send is missing: it says where batches go; NewHTTP makes one"),
		need(c.Format <= FormatRaw, fmt.Sprintf("Format %d is not known", c.Format)),
		within("Trigger.Count", s.count, 1, 1<<20),
		within("Trigger.Bytes", s.bytes, 1, 1<<30),
		need(s.idle >= 0, "Trigger.Idle is negative"),
		within("Queue.Events", s.maxEvents, 1, 1<<30),
		within("Queue.Bytes", s.maxBytes, 1, 1<<40),
		need(s.full <= PolicySpill, fmt.Sprintf("Queue.Full %d is not known", s.full)),
		need(s.full != PolicySpill || c.Spool != nil, "Queue.Full is Spill, but there is no Spool to spill to"),
		within("Lanes.Max", s.lanesMax, 1, 1024),
		need(c.Lanes.Order <= OrderTotal, fmt.Sprintf("Lanes.Order %d is not known", c.Lanes.Order)),
		need(c.Lanes.Order != OrderPerKey || c.Lanes.Key != nil, "Lanes.Order is PerKey, but Lanes.Key is missing: it says which events keep their order"),
		need(!s.gapless || s.ordered, "Lanes.Gapless needs an order, PerKey or Total"),
		need(s.retry.Initial > 0 && s.retry.Initial <= s.retry.Max, fmt.Sprintf("Retry.Initial %v must be above 0 and at most Retry.Max, %v", s.retry.Initial, s.retry.Max)),
		need(s.retry.MaxElapsed >= 0, "Retry.MaxElapsed is negative"),
		need(s.retry.Attempts >= 0, "Retry.Attempts is negative"),
		need(s.retry.MaxRetryAfter > 0, "Retry.MaxRetryAfter is negative"),
		need(c.Spool == nil || c.Spool.Dir != "", "Spool.Dir is missing"),
		need(c.Spool == nil || c.Spool.AfterAttempts >= 0, "Spool.AfterAttempts is negative"),
		producerName(s.producer),
	)
	if err != nil {
		return settings{}, err
	}
	switch c.Lanes.Order {
	case OrderPerKey:
		s.keyed = fingerprint(c.Lanes.Key)
		s.laneCount, s.laneFlights, s.laneShards = s.lanesMax, 1, 1
	case OrderTotal:
		s.lanesMax = 1
		s.laneCount, s.laneFlights, s.laneShards = 1, 1, 1
	default:
		s.laneCount, s.laneFlights, s.laneShards = 1, s.lanesMax, s.shards()
	}
	s.chunks()
	return s, nil
}

// fingerprint tells functions apart that give other keys: hashes with a random
// seed, above all. It is 0 when the function panics.
func fingerprint[T any](key func(*T) uint64) (f uint32) {
	defer func() {
		if recover() != nil { // it may expect more of an event than that it is there
			f = 0
		}
	}()
	return uint32(spread(key(new(T))^0x6c616e65)) | 1
}

// What a chunk must at least hold for several shards to be worth it: below, they
// would only delay the Count and Bytes triggers, which see sealed chunks.
const (
	leastEvents = 32
	leastBytes  = 4 << 10
)

// shards is the number of shards of an unordered lane: a power of two that is at
// least the number of processors, or one where chunks would become too small.
func (s *settings) shards() int {
	n := 1 << bits.Len(uint(runtime.GOMAXPROCS(0)-1))
	if n = min(n, 64); min(s.count, s.maxEvents/2)/n < leastEvents || min(s.bytes, s.maxBytes/2)/int64(n) < leastBytes {
		return 1
	}
	return n
}

// chunks sets the size of a chunk: so that a batch is made of whole ones, and so
// that the open ones of all shards take at most half of the queue.
func (s *settings) chunks() {
	shards := s.laneCount * s.laneShards
	s.chunkEvents = max(1, min(s.count/s.laneShards, s.maxEvents/(2*shards)))
	s.chunkBytes = int(max(1, min(arenaBytes, s.bytes/int64(s.laneShards), s.maxBytes/int64(2*shards))))
	s.largest = int(min(s.bytes, s.maxBytes))
}

func producerName(name string) error {
	bad := func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }
	return need(len(name) <= 100 && strings.IndexFunc(name, bad) < 0,
		fmt.Sprintf("Producer %q: at most 100 printable ASCII characters without spaces and slashes", name))
}

func within[N int | int64](name string, n, least, most N) error {
	return need(n >= least && n <= most, fmt.Sprintf("%s is %d: from %d to %d", name, n, least, most))
}

// or returns v, or what it stands for when it is zero.
func or[N int | int64 | time.Duration](v, zero N) N {
	if v == 0 {
		return zero
	}
	return v
}
