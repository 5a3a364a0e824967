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
// squares. Users are drawn independently, so the variance of the scaled sum of
// c(u) over the sample is estimated by (1-p)/p² times the sum of c(u)² over it.
func (p *plan) spread(k int64, squares float64) query.Number {
	if p.share == 1 {
		return query.Number{N: k}
	}
	n, low, high := p.interval(float64(k), squares)
	return query.Number{N: int64(math.Round(n)), Low: int64(math.Floor(low)), High: int64(math.Ceil(high)), Sampled: true}
}

// interval scales a sum to the whole, with its bounds of 95 %.
func (p *plan) interval(sum, squares float64) (n, low, high float64) {
	n = sum / p.share
	half := z * math.Sqrt(squares*(1-p.share)) / p.share
	low, high = n-half, n+half
	if sum >= 0 {
		low = max(low, sum) // what was seen is there
	}
	return n, low, high
}
