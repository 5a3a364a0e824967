package exec

import (
	"math"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// z is the quantile of the normal distribution for a confidence of 95 %.
const z = 1.959963984540054

// number scales a count of users to the whole.
func (p *plan) number(k int64) query.Number {
	return p.spread(k, float64(k))
}

// spread scales a count of which the users' squared contributions add up to
// squares, and bounds it by the score interval (Wilson 1927): the totals N for which
// the count is within z standard deviations of N times the share. So a count of 0
// has an upper bound too, some 3.84 divided by the share. Users count for squares/k
// each, as if they all did as much.
func (p *plan) spread(k int64, squares float64) query.Number {
	if p.share == 1 {
		return query.Number{N: k}
	}
	each := 1.0
	if k > 0 {
		each = squares / float64(k)
	}
	var (
		users = float64(k) / each
		spare = z * math.Sqrt(1-p.share)
		root  = math.Sqrt(spare*spare + 4*users)
		low   = (root - spare) / 2
		high  = (root + spare) / 2
		scale = each / p.share
	)
	const noise = 1e-6 // of the arithmetic, before rounding to whole users
	return query.Number{
		N:       int64(math.Round(float64(k) / p.share)),
		Low:     max(k, int64(math.Floor(low*low*scale+noise))),
		High:    int64(math.Ceil(high*high*scale - noise)),
		Sampled: true,
	}
}

// interval scales a sum to the whole, with its bounds of 95 %. Users are drawn
// independently, so the variance of the scaled sum of c(u) over the sample is
// estimated by (1-p)/p² times the sum of c(u)² over it.
func (p *plan) interval(sum, squares float64) (n, low, high float64) {
	n = sum / p.share
	half := z * math.Sqrt(squares*(1-p.share)) / p.share
	return n, n - half, n + half
}
