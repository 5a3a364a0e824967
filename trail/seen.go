package trail

import (
	"log/slog"
	"slices"
	"sort"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// seen finds events that a store has already, by user, time and id. The sources
// must be pinned, or belong to the caller alone.
type seen struct {
	log     *slog.Logger
	sources []*source
	tombs   *tombstones
	ready   bool              // buckets is of sources
	buckets map[int64][]known // made when the first event with an id comes
	ids     []uint64          // scratch
}

type known struct {
	src     *source
	dropped []uint64 // hashes of the users that are deleted from it, ascending
}

func (x *seen) reset(sources []*source, tombs *tombstones) {
	x.sources, x.tombs, x.ready = sources, tombs, false
}

func (x *seen) prepare() {
	x.ready = true
	clear(x.buckets)
	for _, src := range x.sources {
		if !src.IDs || !src.mergeable() {
			continue
		}
		if x.buckets == nil {
			x.buckets = make(map[int64][]known)
		}
		x.buckets[src.Bucket] = append(x.buckets[src.Bucket], known{src, x.tombs.of(&src.entry)})
	}
}

// has reports whether a source has an event. If the source is damaged there, the event
// counts as new.
func (x *seen) has(bucket int64, user string, millis int64, id uint64) bool {
	if !x.ready {
		x.prepare()
	}
	sources := x.buckets[bucket]
	if len(sources) == 0 {
		return false
	}
	hash := event.Hash(user)
	for _, k := range sources {
		if millis < k.src.MinTime || millis > k.src.MaxTime || !k.src.Hashes.Has(hash) {
			continue
		}
		if _, gone := slices.BinarySearch(k.dropped, hash); gone {
			continue
		}
		found := false
		err := guarded(func() (err error) {
			found, err = x.find(k.src.seg, hash, user, millis, id)
			return err
		})
		if err != nil && !k.src.unmergeable.Swap(true) {
			x.log.Error("trail: look for duplicates in a segment", "file", k.src.File, "err", err)
		}
		if found {
			return true
		}
	}
	return false
}

func (x *seen) find(seg *segment.Segment, hash uint64, user string, millis int64, id uint64) (bool, error) {
	r, _, err := seg.Range(hash, hash)
	if err != nil || r.UserLo == r.UserHi {
		return false, err
	}
	times, ids := seg.Times(), seg.IDs()
	for ord := r.UserLo; ord < r.UserHi; ord++ {
		lo, hi := seg.FirstRow(ord), seg.FirstRow(ord+1)
		if _, err := times.Prepare(lo, hi); err != nil {
			return false, err
		}
		lo = searchTime(times, lo, hi, millis)
		hi = searchTime(times, lo, hi, millis+1)
		if lo == hi {
			continue
		}
		if _, err := ids.Prepare(lo, hi); err != nil {
			return false, err
		}
		x.ids = slices.Grow(x.ids[:0], hi-lo)
		if !slices.Contains(ids.ReadRaw(x.ids, lo, hi), id) { // the result may be in the mapped file, so x.ids is kept
			continue
		}
		name, err := seg.UserID(ord)
		if err != nil || name == user {
			return err == nil, err
		}
	}
	return false, nil
}

// searchTime returns the first of the rows [lo, hi) of a user whose time is not
// before millis.
func searchTime(t *segment.Times, lo, hi int, millis int64) int {
	return lo + sort.Search(hi-lo, func(i int) bool { return t.Base()+t.Unit()*int64(t.At(lo+i)) >= millis })
}
