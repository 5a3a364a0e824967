package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/uniflow-labs/uniflow/internal/flame"
)

const (
	// barEvery is how often a bar on a terminal moves.
	barEvery = 100 * time.Millisecond

	// lineEvery is how often there is a line where there is no terminal. What
	// takes less has none.
	lineEvery = 5 * time.Second
)

// A meter shows how far a long piece of work is: by a bar on a terminal, by a line
// every few seconds elsewhere. Its methods may be called from any goroutine.
type meter struct {
	app      *app
	terminal bool
	now      func() time.Time

	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil until there is something to show
	what  string                   // that the bar is about
	began time.Time                // of what
	told  time.Time
}

// newMeter returns a meter that has nothing to show yet. It must be cleared
// before anything else is said.
func (a *app) newMeter() *meter {
	return &meter{app: a, terminal: a.Terminal(a.stderr.w) && a.Getenv("TERM") != "dumb", now: time.Now}
}

// A headway is how far a piece of work is.
type headway struct {
	what        string // is being done, and to what
	done, total int64  // of any unit; total is not above 0 if nobody knows
	events      int64  // so far
	bytes       bool   // done and total are bytes, and there are no events to count
}

// update shows progress, if it is time to.
func (m *meter) update(p headway) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if m.what != p.what {
		m.clear()
		m.what, m.began, m.told = p.what, now, now
		if m.terminal {
			m.start(p.total)
		}
	}
	every := lineEvery
	if m.terminal {
		every = barEvery
	}
	if now.Sub(m.told) < every {
		return
	}
	m.told = now
	took := now.Sub(m.began)
	text := fmt.Sprintf("%s events, %s/s", figure(p.events), figure(perSecond(p.events, took)))
	if p.bytes {
		text = fmt.Sprintf("%s, %s/s", byteSize(p.done), byteSize(perSecond(p.done, took)))
	}
	what := flame.Printable(p.what)
	if m.terminal {
		what = lastPart(what)
	}
	text = what + ": " + text
	if !m.terminal {
		if p.total > 0 && p.done > 0 {
			left := time.Duration(float64(took) * max(0, float64(p.total-p.done)) / float64(p.done))
			text += fmt.Sprintf(", %s, %s left", wholePercent(min(1, float64(p.done)/float64(p.total))), left.Round(time.Second))
		}
		m.app.talk("%s\n", text)
		return
	}
	m.bar.Describe(text)
	// It fails when standard error does, of which there is nowhere to tell.
	_ = m.bar.Set64(p.done)
}

// start makes a bar, which tells the time that is left from now on.
func (m *meter) start(total int64) {
	if total <= 0 {
		total = -1
	}
	m.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(m.app.Stderr), progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetWidth(barWidth), progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetSpinnerChangeInterval(0)) // else a goroutine turns it that nobody waits for
	m.bar.StartWithoutRender()
}

// end takes away what is shown.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
	m.what = ""
}

// clear is end for those who hold the lock.
func (m *meter) clear() {
	if m.bar != nil && m.bar.IsStarted() {
		m.app.talk("\r\x1b[K")
	}
	m.bar = nil
}

// maxBarName is how much of a name stands beside a bar, in characters: a line that
// is longer than the terminal is wide could not be taken away again.
const maxBarName = 24

// lastPart cuts a name at its beginning.
func lastPart(name string) string {
	r := []rune(name)
	if len(r) <= maxBarName {
		return name
	}
	return "…" + string(r[len(r)-maxBarName+1:])
}

// perSecond is a rate.
func perSecond(n int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(n) / took.Seconds())
}
