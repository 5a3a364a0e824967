package show

import (
	"math"
	"strings"
	"unicode/utf8"
)

// A Table is text in columns, two blanks apart. The zero table has no columns.
type Table struct {
	head  []string
	right []bool // of each column
	rows  [][]string
}

// Text adds columns whose cells are aligned to the left.
func (t *Table) Text(heads ...string) { t.add(false, heads) }

// Figures adds columns whose cells are aligned to the right.
func (t *Table) Figures(heads ...string) { t.add(true, heads) }

func (t *Table) add(right bool, heads []string) {
	for _, head := range heads {
		t.head = append(t.head, head)
		t.right = append(t.right, right)
	}
}

// Columns returns the number of columns.
func (t *Table) Columns() int { return len(t.head) }

// Row adds a row of as many cells as there are columns, or fewer.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// String returns the heads and the rows, a line each.
func (t *Table) String() string { return t.write(append([][]string{t.head}, t.rows...)) }

// Body returns the rows without the heads.
func (t *Table) Body() string { return t.write(t.rows) }

func (t *Table) write(rows [][]string) string {
	widths := make([]int, len(t.head))
	shown := make([][]string, len(rows))
	for i, cells := range rows {
		shown[i] = make([]string, len(cells))
		for j, cell := range cells {
			shown[i][j] = Printable(cell)
			widths[j] = max(widths[j], utf8.RuneCountInString(shown[i][j]))
		}
	}
	var b strings.Builder
	for _, cells := range shown {
		var line strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right[i] {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// barWidth is the length of the longest bar in characters.
const barWidth = 24

// Bar draws a part of a whole in eighths of characters: empty for nothing, and
// visible for anything else.
func Bar(part, whole float64) string { return bar(part, whole, barWidth) }

func bar(part, whole, width float64) string {
	if !(part > 0) || !(whole > 0) { // NaN too
		return ""
	}
	eighths := max(1, int(math.Round(min(1, part/whole)*width*8)))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return text
}
