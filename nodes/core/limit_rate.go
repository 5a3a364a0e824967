package core

import (
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

func quotaOf(cfg schema.Config, found *diag.List) quota {
	q := quota{burst: int(cfg.Int("burst")), concurrency: int(cfg.Int("concurrency"))}
	switch {
	case cfg.Has("rate"):
		n, per, ok := parseRate(cfg.String("rate"))
		if !ok {
			got := "text from a template"
			if !cfg.Hidden("rate") {
				got = strconv.Quote(node.Clip(cfg.String("rate"), 60))
			}
			found.Add(cfg.Errorf("rate", diag.CodeBadValue, "want a rate such as 100/m, got %s", got).
				WithHint("write a number a second such as 5, or a number in a time such as 100/m or 5/10s; the units are s, m, h and d"))
			return q
		}
		q.rate = rate.Limit(n / per.Seconds())
		if !cfg.Has("burst") {
			q.burst = int(min(max(1, math.Ceil(n)), 1<<30))
		}
	case cfg.Has("burst"):
		found.Add(cfg.Errorf("burst", diag.CodeBadValue, "burst is used with rate only").WithHint("add one such as rate: 100/m, or remove it"))
	case !cfg.Has("concurrency"):
		found.Add(cfg.Errorf("", diag.CodeBadValue, "nothing is limited").WithHint("add one such as rate: 100/m, or concurrency: 10"))
	}
	return q
}

const ratePattern = `^ *\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)? *(/ *([0-9]+(\.[0-9]*)?|\.[0-9]+)?(ms|s|m|h|d) *)?$`

// parseRate reads a number of packets and the time in which they may pass. The rate
// must be one that a bucket can be refilled at.
func parseRate(text string) (n float64, per time.Duration, ok bool) {
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
