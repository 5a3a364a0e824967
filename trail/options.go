package trail

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// Options are what a store is opened with. Zero values are the defaults.
type Options struct {
	// ReadOnly opens a store for queries, whether or not it has a writer. Nothing
	// is written. Events appended later are seen after Refresh.
	ReadOnly bool
	// Rebuild makes a manifest from the segments that are there if both copies of
	// it are damaged. Deletions, the horizon, marks and cohorts are lost then;
	// without it Open refuses such a store.
	Rebuild bool
	// Bucket is the span of time that a segment covers: default 28 days, from an
	// hour to 49 days. It is fixed when the store is made, and ignored later.
	Bucket time.Duration
	// Retention is how long events are kept, by their time; 0 keeps them for ever. It
	// applies while the store is open with it.
	Retention time.Duration
	// Times bounds the times of events that Append and Import take; zero: from 20
	// years before now to a day after. What is in the store already stays, whatever
	// its times.
	Times Times
	// FlushRows is how many events in memory are written to segments: default
	// 1,000,000.
	FlushRows int
	// FlushEvery is how long an event stays in memory and the write-ahead log
	// alone: default 60 s. If negative, time calls for no flush.
	FlushEvery time.Duration
	// Memory is how many bytes of events in memory call for a flush: default 256
	// MiB. Appends wait when there is twice as much.
	Memory int64
	// NoSync leaves out the fsync of appends: a loss of power may then lose the
	// last second of them; a kill still loses nothing.
	NoSync bool
	// Log gets records of recovery, damage, and background work that fails; nil
	// for none.
	Log *slog.Logger

	fs      vfs.FS           // nil: the real one, with mapped segments
	now     func() time.Time // nil: time.Now
	buckets int              // 0: maxBuckets
	rows    int64            // of a segment, above which it is divided by users; 0: segmentRows
	spill   int              // rows of an import in memory; 0: spillRows
	terms   int64            // bytes of their strings; 0: maxTerms
}

const (
	defaultBucket     = 28 * 24 * time.Hour
	minBucket         = time.Hour
	maxBucket         = 49 * 24 * time.Hour // 32 bits of milliseconds
	defaultFlushRows  = 1_000_000
	defaultFlushEvery = time.Minute
	defaultMemory     = 256 << 20
)

func (o Options) withDefaults() (Options, error) {
	o.Bucket = cmp.Or(o.Bucket, defaultBucket)
	if o.Bucket < minBucket || o.Bucket > maxBucket || o.Bucket%time.Second != 0 {
		return o, fmt.Errorf("a bucket of %v: want whole seconds from %v to %v", o.Bucket, minBucket, maxBucket)
	}
	if o.Retention < 0 {
		return o, errors.New("a negative time to keep events")
	}
	o.FlushRows = cmp.Or(max(o.FlushRows, 0), defaultFlushRows)
	o.FlushEvery = cmp.Or(o.FlushEvery, defaultFlushEvery)
	o.Memory = cmp.Or(max(o.Memory, 0), defaultMemory)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.now == nil {
		o.now = time.Now
	}
	o.buckets = cmp.Or(o.buckets, maxBuckets)
	o.rows = cmp.Or(o.rows, segmentRows)
	o.spill = cmp.Or(o.spill, spillRows)
	o.terms = cmp.Or(o.terms, maxTerms)
	return o, nil
}
