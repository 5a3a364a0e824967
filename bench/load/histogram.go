package load

import (
	"math/bits"
	"time"
)

// Buckets are exact below fine nanoseconds and 1/fine, or 3 %, wide above.
const (
	fineBits = 5
	fine     = 1 << fineBits
	buckets  = (64 - fineBits + 1) * fine
)

// A Histogram counts durations. The zero value is empty; it is not safe for
// concurrent use.
type Histogram struct {
	count  int64
	bucket [buckets]uint32
}

// Add counts a duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	h.count++
	h.bucket[bucketOf(uint64(max(d, 0)))]++
}

// Merge adds what the other has counted.
func (h *Histogram) Merge(other *Histogram) {
	h.count += other.count
	for i, n := range other.bucket {
		h.bucket[i] += n
	}
}

// Count returns how many durations there are.
func (h *Histogram) Count() int64 { return h.count }

// Quantile returns the duration that a share of q, from 0 to 1, does not exceed,
// rounded down to its bucket; 0 if there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(q * float64(h.count))
	rank = min(rank, h.count-1)
	for i, n := range h.bucket {
		if rank -= int64(n); rank < 0 {
			return time.Duration(lowest(i))
		}
	}
	return 0
}

func bucketOf(n uint64) int {
	if n < fine {
		return int(n)
	}
	shift := bits.Len64(n) - fineBits - 1
	return (shift+1)*fine + int(n>>shift) - fine
}

// lowest returns the smallest number of a bucket.
func lowest(bucket int) uint64 {
	if bucket < fine {
		return uint64(bucket)
	}
	shift := bucket/fine - 1
	return uint64(bucket%fine+fine) << shift
}
