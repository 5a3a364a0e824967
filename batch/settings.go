package batch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"strings"
	"time"
)

// settings are checked Options without the type, with defaults.
type settings struct {
	send           SendFunc
	format         Format
	sep            byte
	count          int
	bytes          int64
	linger         time.Duration // negative: never
	idle           time.Duration // 0: never
	full           Policy        // never PolicyDefault
	retry          Retry
	disk           *Spool
	producer       string
	dead           func(context.Context, Dropped) error
	onDrop         func(Dropped)
	hooks          Hooks
	log            *throttledLogger
	keyFingerprint uint32 // 0 if Lanes.Key has none or is not used

	maxEvents int
	maxBytes  int64
	largest   int // bytes of an event and its separator

	lanesMax    int // batches on the way in all lanes
	laneCount   int
	laneBatches int // batches on the way in one lane
	laneShards  int
	ordered     bool
	gapless     bool

	chunkEvents int
	chunkBytes  int

	epoch  uint64 // of this processor: no two on one spool have the same
	ahead  bool   // events are written to the spool as they come
	spills bool   // events are written to the spool when memory is full
}

// settings checks c.
func (c Options[T]) settings() (settings, error) {
	s := settings{
		send:     c.Send,
		format:   c.Format,
		sep:      c.Format.separator(),
		count:    cmp.Or(c.Trigger.Count, 1000),
		bytes:    int64(cmp.Or(c.Trigger.Bytes, 1<<20)),
		linger:   cmp.Or(c.Trigger.Linger, time.Second),
		idle:     c.Trigger.Idle,
		full:     c.Queue.Full,
		retry:    c.Retry,
		producer: c.Producer,
		dead:     c.DeadLetter,
		onDrop:   c.OnDrop,
		hooks:    c.Hooks,
		log:      newThrottledLogger(c.Log),

		maxEvents: cmp.Or(c.Queue.Events, 64<<10),
		maxBytes:  cmp.Or(c.Queue.Bytes, 64<<20),
		lanesMax:  cmp.Or(c.Lanes.Max, 4),
		ordered:   c.Lanes.Order != OrderNone,
		gapless:   c.Lanes.Gapless,
		epoch:     uint64(time.Now().UnixNano()),
	}
	s.retry.Initial = cmp.Or(s.retry.Initial, 100*time.Millisecond)
	s.retry.Max = cmp.Or(s.retry.Max, 30*time.Second)
	s.retry.MaxRetryAfter = cmp.Or(s.retry.MaxRetryAfter, 2*time.Minute)
	if s.full == PolicyDefault {
		s.full = PolicyBlock
		if c.Spool != nil {
			s.full = PolicySpill
		}
	}
	if c.Spool != nil {
		disk := *c.Spool
		disk.SyncEvery = cmp.Or(disk.SyncEvery, 10*time.Millisecond)
		disk.AfterAttempts = cmp.Or(disk.AfterAttempts, 3)
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
		need(s.full != PolicySpill || c.Spool != nil, "Queue.Full is PolicySpill, but there is no Spool"),
		within("Lanes.Max", s.lanesMax, 1, 1024),
		need(c.Lanes.Order <= OrderTotal, fmt.Sprintf("Lanes.Order %d is not known", c.Lanes.Order)),
		need(c.Lanes.Order != OrderPerKey || c.Lanes.Key != nil, "Lanes.Order is OrderPerKey, but Lanes.Key is missing: it says which events keep their order"),
		need(!s.gapless || s.ordered, "Lanes.Gapless needs OrderPerKey or OrderTotal"),
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
		s.keyFingerprint = fingerprint(c.Lanes.Key)
		s.laneCount, s.laneBatches, s.laneShards = s.lanesMax, 1, 1
	case OrderTotal:
		s.lanesMax = 1
		s.laneCount, s.laneBatches, s.laneShards = 1, 1, 1
	default:
		s.laneCount, s.laneBatches, s.laneShards = 1, s.lanesMax, s.shards()
	}
	s.chunks()
	return s, nil
}

// fingerprint returns a number that differs between functions with different keys,
// such as hashes with a random seed. It is 0 if the function panics.
func fingerprint[T any](key func(*T) uint64) (f uint32) {
	defer func() {
		if recover() != nil { // the zero event may not be valid
			f = 0
		}
	}()
	return uint32(spread(key(new(T))^0x6c616e65)) | 1
}

// The minimum size of a chunk for a lane to have several shards: with smaller chunks
// these would only delay Trigger.Count and Trigger.Bytes, which count sealed chunks.
const (
	leastEvents = 32
	leastBytes  = 4 << 10
)

// shards returns the number of shards of an unordered lane: a power of two that is at
// least the number of processors, or one if chunks would become too small.
func (s *settings) shards() int {
	n := 1 << bits.Len(uint(runtime.GOMAXPROCS(0)-1))
	if n = min(n, 64); min(s.count, s.maxEvents/2)/n < leastEvents || min(s.bytes, s.maxBytes/2)/int64(n) < leastBytes {
		return 1
	}
	return n
}

// chunks sets the size of a chunk, so that a batch has whole chunks, and the open
// chunks of all shards take at most half of the queue.
func (s *settings) chunks() {
	shards := s.laneCount * s.laneShards
	s.chunkEvents = max(1, min(s.count/s.laneShards, s.maxEvents/(2*shards)))
	s.chunkBytes = int(max(1, min(arenaBytes, s.bytes/int64(s.laneShards), s.maxBytes/int64(2*shards))))
	s.largest = int(min(s.bytes, s.maxBytes))
}

func producerName(name string) error {
	bad := func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }
	return need(len(name) <= 100 && strings.IndexFunc(name, bad) < 0,
		fmt.Sprintf("Producer %q: must have at most 100 printable ASCII characters without spaces and slashes", name))
}

func within[N int | int64](name string, n, least, most N) error {
	return need(n >= least && n <= most, fmt.Sprintf("%s is %d: must be from %d to %d", name, n, least, most))
}

// need returns an error with the text, unless ok.
func need(ok bool, what string) error {
	if ok {
		return nil
	}
	return errors.New("batch: " + what)
}
