package field

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// RatePattern is what the text of a rate looks like.
const RatePattern = `^ *\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)? *(/ *([0-9]+(\.[0-9]*)?|\.[0-9]+)?(ms|s|m|h|d) *)?$`

// ParseRate reads a rate: a number, and the time in which so many may pass. It must be one that a bucket
// can be refilled at.
func ParseRate(text string) (n float64, per time.Duration, ok bool) {
	number, unit, divided := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || strings.ContainsAny(number, "xX_pP") {
		return 0, 0, false
	}
	per = time.Second
	if divided {
		unit = strings.TrimSpace(unit)
		if unit == "" {
			return 0, 0, false
		}
		count := 1.0
		digits := strings.TrimRight(unit, "mshd")
		if digits != "" {
			if count, err = strconv.ParseFloat(digits, 64); err != nil || strings.ContainsAny(digits, "xX_pPeE+-") {
				return 0, 0, false
			}
		}
		one := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[unit[len(digits):]]
		length := count * float64(one)
		if !(length >= 1 && length < math.MaxInt64) {
			return 0, 0, false
		}
		per = time.Duration(length)
	}
	perSecond := n / per.Seconds()
	return n, per, perSecond >= 1e-9 && perSecond <= 1e9
}
