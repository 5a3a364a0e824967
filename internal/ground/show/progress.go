package show

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// barEvery is how often the line on a terminal is drawn again.
	barEvery = 100 * time.Millisecond

	// lineEvery is how often a line is written where there is no terminal. What
	// takes less time writes none.
	lineEvery = 5 * time.Second

	// maxName and shortBar bound the characters of a name and of its bar, so that the
	// line fits into 80 columns: a longer one could not be erased.
	maxName  = 20
	shortBar = 10
)

// A Progress shows how much of a long piece of work is done: in a line with a bar
// that is drawn again and again on a terminal, in a line every few seconds
// elsewhere. Its methods may be called from any goroutine.
type Progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	mu    sync.Mutex
	drawn bool      // the terminal shows a line
	what  string    // the work that is shown
	began time.Time // when that work began
	last  time.Time // when something was shown
}

// A Step is how much of a piece of work is done. A new name begins a new piece.
type Step struct {
	What        string
	Done, Total int64 // in any unit; Total is not above 0 if it is not known
	Events      int64 // so far
	Bytes       bool  // Done and Total are bytes, and there are no events to count
}

// NewProgress returns a Progress that has shown nothing yet. Call its End before
// anything else is written.
func NewProgress(w io.Writer, terminal bool) *Progress {
	return &Progress{w: w, terminal: terminal, now: time.Now}
}

// Update shows a step, if it is time to.
func (p *Progress) Update(s Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.what != s.What {
		p.eraseLocked()
		p.what, p.began, p.last = s.What, now, now
	}
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	if now.Sub(p.last) < every {
		return
	}
	p.last = now
	took := now.Sub(p.began)
	amount := fmt.Sprintf("%s events, %s/s", Thousands(s.Events), Thousands(PerSecond(s.Events, took)))
	if s.Bytes {
		amount = fmt.Sprintf("%s, %s/s", Bytes(s.Done), Bytes(PerSecond(s.Done, took)))
	}
	left := ""
	if s.Total > 0 && s.Done > 0 {
		share := min(1, float64(s.Done)/float64(s.Total))
		rest := time.Duration(float64(took) * (1 - share) / share)
		left = fmt.Sprintf("%s, %s left", WholePercent(share), rest.Round(time.Second))
	}
	name := Printable(s.What)
	switch {
	case p.terminal:
		p.drawLocked(fmt.Sprintf("%s: %s %s", end(name), amount, frame(s)+left))
	case left != "":
		p.write(fmt.Sprintf("%s: %s, %s\n", name, amount, left))
	default:
		p.write(fmt.Sprintf("%s: %s\n", name, amount))
	}
}

// Line shows a line of text on a terminal, in place of what is there.
func (p *Progress) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		p.drawLocked(Printable(text))
	}
}

// End erases what is shown.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseLocked()
	p.what = ""
}

func (p *Progress) drawLocked(line string) {
	p.write("\r\x1b[K" + line)
	p.drawn = true
}

func (p *Progress) eraseLocked() {
	if p.drawn {
		p.write("\r\x1b[K")
	}
	p.drawn = false
}

// write ignores errors: there is nowhere to report that standard error failed.
func (p *Progress) write(text string) { _, _ = io.WriteString(p.w, text) }

// frame is the bar of a step; empty if the total is not known.
func frame(s Step) string {
	if s.Total <= 0 {
		return ""
	}
	bar := bar(float64(s.Done), float64(s.Total), shortBar)
	return "│" + bar + strings.Repeat(" ", shortBar-utf8.RuneCountInString(bar)) + "│ "
}

// end cuts the beginning off a name that is too long.
func end(name string) string {
	r := []rune(name)
	if len(r) <= maxName {
		return name
	}
	return "…" + string(r[len(r)-maxName+1:])
}

// PerSecond is a rate, 0 where no time has passed.
func PerSecond(n int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(n) / took.Seconds())
}
