package protobuf

import (
	"fmt"
	"strconv"
	"strings"
)

// spanText is the text of a duration, as JSON of Protocol Buffers has it.
func spanText(seconds, nanos int64) string {
	sign := ""
	if seconds < 0 || nanos < 0 {
		sign, seconds, nanos = "-", -seconds, -nanos
	}
	if nanos == 0 {
		return fmt.Sprintf("%s%ds", sign, seconds)
	}
	return fmt.Sprintf("%s%d.%09ds", sign, seconds, nanos)
}

// parseSpan is the inverse of spanText.
func parseSpan(text string) (seconds int64, nanos int32, ok bool) {
	text, ok = strings.CutSuffix(text, "s")
	text, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(text, ".")
	if !ok || len(whole) == 0 || len(fraction) > 9 || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, 0, false
	}
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds > maxSpan {
		return 0, 0, false
	}
	part, _ := strconv.ParseInt(fraction+strings.Repeat("0", 9-len(fraction)), 10, 32) // nine digits
	if nanos = int32(part); negative {
		seconds, nanos = -seconds, -nanos
	}
	return seconds, nanos, true
}
