package keep

import (
	"context"
	"math"
	"time"
)

// A Quota is what each key may use.
type Quota struct {
	Rate        float64 // tokens a second; 0 sets no limit
	Burst       int     // tokens of a full bucket
	Concurrency int     // leases at a time; 0 sets no limit
}

// A Limiter counts for all programs that share its store, by the clock of the store: that of a program does not
// matter. Any goroutine may call its methods.
//
// A bucket is kept as the time at which it will be full, as the generic cell rate algorithm (GCRA) has it: one number
// for each key. A key that is not used for as long as it takes to fill its bucket is forgotten.
type Limiter interface {
	// Take takes a token of a key, and a lease if their number is limited, or neither. It is one round trip.
	// wait is 0 if it did, [Crowded] if there are too many leases, and otherwise after what time there is a token.
	Take(ctx context.Context, key, lease string, q Quota) (wait time.Duration, err error)

	// Renew has leases last for LeaseTime from now, except those that have expired.
	Renew(ctx context.Context, leases map[string]string) error // the key of each

	// Release ends a lease.
	Release(ctx context.Context, key, lease string) error

	Close() error
}

// Crowded is what Take returns if there are too many leases.
const Crowded time.Duration = -1

// LeaseTime is how long a lease lasts that is not renewed: its program has ended, or cannot reach the store.
const LeaseTime = 30 * time.Second

// OpenLimiter connects to the database, as Open does. The place is not in memory.
func (p *Place) OpenLimiter(ctx context.Context) (Limiter, error) {
	if p.redis != nil {
		s, err := p.redis.open(ctx)
		if err != nil {
			return nil, err
		}
		return &redisLimiter{s}, nil
	}
	l := newSQLLimiter(p.db, p.log, p.table)
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// interval is after how many microseconds the next token comes. It is rounded up to what a time in microseconds has as
// a float: the sum of many must not be too small.
func (q Quota) interval() float64 {
	if q.Rate == 0 {
		return 0
	}
	return math.Ceil(4e6/q.Rate) / 4
}

// waitOf reads what a store has answered.
func waitOf(micros float64) time.Duration {
	if micros < 0 {
		return Crowded
	}
	return time.Duration(min(math.Ceil(micros), float64(math.MaxInt64/time.Microsecond))) * time.Microsecond
}
