package show

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the units of sizes: the binary ones from small to large, then the
// others. The name of a unit comes before the names that it ends with.
var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// SizeUnits names the units that [ParseSize] reads.
const SizeUnits = "B, KiB, MiB, GiB, TiB, and kB, MB, GB, TB"

// Bytes writes a number of bytes with one decimal, in the unit that fits.
func Bytes(n int64) string {
	f := float64(n)
	if f < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	unit := -1
	for f >= 1024 && unit < 3 {
		f /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", f, units[unit].name)
}

// Size writes a number of bytes exactly, in the largest binary unit that divides it.
// [ParseSize] reads it.
func Size(n float64) string {
	for i := 3; i >= 0; i-- {
		if unit := units[i]; n >= unit.bytes && math.Mod(n, unit.bytes) == 0 {
			return strconv.FormatFloat(n/unit.bytes, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// ParseSize reads a number of bytes with or without a unit, such as 65536 or 8MiB.
// It is not ok if the text is malformed; the number may be negative or a fraction.
func ParseSize(text string) (n float64, ok bool) {
	factor := 1.0
	for _, unit := range units {
		if digits, found := strings.CutSuffix(text, unit.name); found {
			text, factor = strings.TrimRight(digits, " "), unit.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "xX_pPnN") {
		return 0, false
	}
	return n * factor, true
}
