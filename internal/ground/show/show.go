// Package show formats output for people: figures, sizes, durations, shares, tables,
// bars and progress.
//
// Invariants: tables and [Printable] escape everything that would move the cursor of a
// terminal or change its colours. Only [Progress] moves the cursor, on a terminal.
//
// The package uses the standard library alone, and must not know what the figures
// and names are about.
package show

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Thousands writes an integer with commas between its thousands.
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Count writes a number with its noun, such as "1 message" or "2,000 messages". The
// plural is the noun with an s.
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Thousands(n) + " " + thing + "s"
}

// Short writes a number with three significant digits, or all of its whole ones.
func Short(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Decimals writes a number with two decimals, or with four significant digits if
// two decimals cannot show it.
func Decimals(f float64) string {
	if abs := math.Abs(f); f != 0 && (abs < 0.01 || abs >= 1e15) {
		return strconv.FormatFloat(f, 'g', 4, 64)
	}
	text := strconv.FormatFloat(math.Abs(f), 'f', 2, 64)
	whole, rest, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return strconv.FormatFloat(f, 'g', -1, 64) // NaN
	}
	if f < 0 {
		return "-" + Thousands(n) + "." + rest
	}
	return Thousands(n) + "." + rest
}

// Percent writes a share, 1 being the whole, with one decimal.
func Percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// WholePercent writes a share without decimals.
func WholePercent(share float64) string {
	if share < 0.005 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// Duration writes a duration with two or three significant digits.
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", d.Seconds()*1e6)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// Printable replaces what cannot be seen or would move the cursor, such as control
// characters and marks that change the direction of text, by escapes as in Go.
func Printable(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if unprintable(r) || r == utf8.RuneError && size == 1 {
			quoted := strconv.QuoteToASCII(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

// PrintableLines is [Printable], except that lines stay lines.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
