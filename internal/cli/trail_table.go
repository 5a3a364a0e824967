package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/internal/flame"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A table is text in columns.
type table struct {
	head  []string
	left  []bool // of each column: text to the left; figures stand to the right
	lines [][]string
}

// column adds a column of figures, or of text.
func (t *table) column(head string, text bool) {
	t.head = append(t.head, head)
	t.left = append(t.left, text)
}

// row adds a line of cells.
func (t *table) row(cells ...string) { t.lines = append(t.lines, cells) }

// String returns the table. What stands in cells comes from events: nothing of it
// moves the cursor or changes the terminal.
func (t *table) String() string {
	widths := make([]int, len(t.head))
	all := append([][]string{t.head}, t.lines...)
	for _, cells := range all {
		for i := range cells {
			cells[i] = flame.Printable(cells[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(cells[i]))
		}
	}
	var b strings.Builder
	for _, cells := range all {
		var line strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.left[i] {
				cell += pad
			} else {
				cell = pad + cell
			}
			line.WriteString(cell + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// barWidth is the length of the longest bar in characters.
const barWidth = 24

// bar draws a part of a whole in eighths of characters, empty for nothing and
// visible for anything else.
func bar(part, whole float64) string {
	if !(part > 0) || !(whole > 0) { // NaN too
		return ""
	}
	eighths := max(1, int(math.Round(min(1, part/whole)*barWidth*8)))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return text
}

// figure writes an integer with its thousands apart.
func figure(n int64) string {
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

// number writes a count, and how far the truth may be from that of a sample.
func number(n query.Number) string {
	if !n.Sampled {
		return figure(n.N)
	}
	return figure(n.N) + " ±" + figure(max(n.N-n.Low, n.High-n.N))
}

// measured writes what a measure gave, "-" for nothing.
func measured(m query.Measured) string {
	switch m.Type {
	case event.Int:
		text := figure(m.Int)
		if m.Sampled {
			text += " ±" + figure(int64(math.Ceil(max(float64(m.Int)-m.Low, m.High-float64(m.Int)))))
		}
		return text
	case event.Float:
		text := decimals(m.Float)
		if m.Sampled {
			text += " ±" + decimals(max(m.Float-m.Low, m.High-m.Float))
		}
		return text
	}
	return "-"
}

// decimals writes a number with two decimals, or as many as it needs to be seen.
func decimals(f float64) string {
	if abs := math.Abs(f); f != 0 && (abs < 0.01 || abs >= 1e15) {
		return strconv.FormatFloat(f, 'g', 4, 64)
	}
	text := strconv.FormatFloat(math.Abs(f), 'f', 2, 64)
	whole, rest, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return strconv.FormatFloat(f, 'g', -1, 64) // not below 1e15, which cannot be
	}
	if f < 0 {
		return "-" + figure(n) + "." + rest
	}
	return figure(n) + "." + rest
}

// amount is what a measure gave, as a length.
func amount(m query.Measured) float64 {
	if m.Type == event.Int {
		return float64(m.Int)
	}
	return m.Float
}

// shown is a value as a cell has it.
func shown(v event.Value) string {
	if v.Missing() {
		return "(missing)"
	}
	return v.String()
}

// ratio writes one count as a share of another, empty if there is none.
func ratio(part, whole query.Number) string {
	if whole.N <= 0 {
		return ""
	}
	return percent(float64(part.N) / float64(whole.N))
}

// byteSize writes a number of bytes in the unit that fits.
func byteSize(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if f < 1024 {
			if unit == "B" {
				return fmt.Sprintf("%d B", n)
			}
			return fmt.Sprintf("%.1f %s", f, unit)
		}
		f /= 1024
	}
	return fmt.Sprintf("%.1f TiB", f)
}
