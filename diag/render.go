package diag

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	tabWidth  = 4
	lineWidth = 120 // characters of a source line that are shown
)

const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// Render writes the findings for people: the line of [Diagnostic.Error], the line
// of the document with a caret below the place, and the hint. sources returns the
// contents of a file, or nil if it does not have them; it may be nil.
func Render(w io.Writer, l List, sources func(file string) []byte, colour bool) error {
	r := renderer{sources: sources, colour: colour, lines: make(map[string][][]byte)}
	for _, d := range l {
		r.finding(d)
	}
	_, err := w.Write(r.out.Bytes())
	return err
}

type renderer struct {
	out     bytes.Buffer
	sources func(string) []byte
	colour  bool
	lines   map[string][][]byte // of the files seen so far
}

func (r *renderer) paint(colour, text string) string {
	if !r.colour || text == "" {
		return text
	}
	return colour + text + plain
}

func (r *renderer) finding(d *Diagnostic) {
	if place := d.Pos.String(); place != "" {
		r.out.WriteString(r.paint(bold, printable(place)+":") + " ")
	}
	colour := red
	if d.Severity == SeverityWarning {
		colour = yellow
		r.out.WriteString(r.paint(colour, "warning:") + " ")
	}
	r.out.WriteString(printable(d.what()))
	r.out.WriteByte('\n')
	if line, ok := r.line(d.Pos); ok && !d.Private {
		text, caret := excerpt(line, d.Pos.Col)
		number := strconv.Itoa(d.Pos.Line)
		fmt.Fprintf(&r.out, "%5s | %s\n", number, text)
		if d.Pos.Col > 0 {
			fmt.Fprintf(&r.out, "%5s | %s%s\n", "", strings.Repeat(" ", caret), r.paint(colour, "^"))
		}
	}
	if d.UsedAt.IsValid() {
		fmt.Fprintf(&r.out, "      %s %s\n", r.paint(cyan, "used at:"), printable(d.UsedAt.String()))
	}
	if d.Hint != "" {
		fmt.Fprintf(&r.out, "      %s %s\n", r.paint(cyan, "hint:"), printable(d.Hint))
	}
}

// line returns the line of a document at p.
func (r *renderer) line(p Pos) ([]byte, bool) {
	if !p.IsValid() || r.sources == nil {
		return nil, false
	}
	lines, seen := r.lines[p.File]
	if !seen {
		lines = bytes.Split(r.sources(p.File), []byte("\n"))
		r.lines[p.File] = lines
	}
	if p.Line > len(lines) {
		return nil, false
	}
	line := bytes.TrimRight(lines[p.Line-1], "\r")
	return line, len(bytes.TrimSpace(line)) > 0
}

// excerpt returns the text to show of a source line, and the column of the caret in
// it, from 0. Long lines are cut around the caret.
func excerpt(line []byte, col int) (text string, caret int) {
	var shown []rune
	at := -1
	for i := 1; len(line) > 0; i++ {
		c, size := utf8.DecodeRune(line)
		line = line[size:]
		if i == col {
			at = len(shown)
		}
		if c == '\t' {
			shown = append(shown, []rune(strings.Repeat(" ", tabWidth-len(shown)%tabWidth))...)
			continue
		}
		shown = append(shown, visible(c))
	}
	if at < 0 {
		at = len(shown)
	}
	if len(shown) <= lineWidth {
		return strings.TrimRight(string(shown), " "), at
	}
	from := min(max(at-lineWidth/2, 0), len(shown)-lineWidth)
	to := from + lineWidth
	cut := shown[from:to:to]
	if from > 0 {
		cut[0] = '…'
	}
	if to < len(shown) {
		cut[len(cut)-1] = '…'
	}
	return strings.TrimRight(string(cut), " "), at - from
}

// visible replaces characters that would move the cursor or change the terminal,
// because documents may be hostile.
func visible(c rune) rune {
	if c == utf8.RuneError || unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
		return '�'
	}
	return c
}

// printable applies visible to a text, and indents all but the first of its lines.
func printable(s string) string {
	return strings.ReplaceAll(strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return c
		}
		return visible(c)
	}, s), "\n", "\n      ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
