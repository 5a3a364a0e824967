package query

import "math"

// z is how many standard deviations 95 % of a normal distribution lie within.
const z = 1.959963984540054

// ScaleCount scales a count of a sample to the whole, with a confidence interval of
// 95 %. A count with a share of 1 stays as it is. squares is the sum, over the users, of
// the square of each user's part: the count itself, if users are counted.
//
// The bounds are the score interval (Wilson 1927): the totals N for which the count
// is within z standard deviations of N times the share. So a count of 0 has an
// upper bound too, some 3.84 divided by the share. Users count for squares/count
// each, as if all of them did as much.
func ScaleCount(count int64, squares, share float64) Number {
	if share == 1 {
		return Number{N: count}
	}
	each := 1.0
	if count > 0 {
		each = squares / float64(count)
	}
	var (
		users = float64(count) / each
		spare = z * math.Sqrt(1-share)
		root  = math.Sqrt(spare*spare + 4*users)
		low   = (root - spare) / 2
		high  = (root + spare) / 2
		scale = each / share
	)
	const noise = 1e-6 // of the arithmetic, before rounding to whole users
	return Number{
		N:       int64(math.Round(float64(count) / share)),
		Low:     max(count, int64(math.Floor(low*low*scale+noise))),
		High:    int64(math.Ceil(high*high*scale - noise)),
		Sampled: true,
	}
}

// ScaleSum returns a sum of a sample for the whole, with its bounds of 95 %. Users
// are drawn independently, so the variance of the scaled sum of what each
// contributes is estimated by (1-share)/share² times the sum of its squares.
func ScaleSum(sum, squares, share float64) (whole, low, high float64) {
	whole = sum / share
	half := z * math.Sqrt(squares*(1-share)) / share
	return whole, whole - half, whole + half
}
