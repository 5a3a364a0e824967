package flow

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/node"
)

// The forms of --progress.
const (
	progressAuto = "auto"
	progressNone = "none"
	progressJSON = "json"
)

var progressForms = []string{progressAuto, progressNone, progressJSON}

// progressPace is how often the line on a terminal is drawn again, and how often a job
// looks whether a source has failed.
const progressPace = 100 * time.Millisecond

// A jobProgress shows how far the sources of a job are, on standard error. The loop of
// the job calls its methods; the logger may be used by any goroutine.
type jobProgress struct {
	w     io.Writer
	form  string
	line  *show.Progress // on a terminal
	now   func() time.Time
	began time.Time

	sources []uniflow.Trigger // with progress to report
	last    []node.Progress   // of each: a source that is closed may have forgotten what there is to do
	start   amount            // when the job began: a source goes on where it was
	wrote   time.Time         // when the last line of JSON was written
	recent  []sample          // of the last seconds, for the rate
}

// An amount is how much all sources have done.
type amount struct {
	messages, failed, dead uint64
	done, total            int64 // total is 0 if one of the sources does not know it
}

// A sample is how many messages there were at a time.
type sample struct {
	at       time.Time
	messages uint64
}

func (a commands) newJobProgress(form string) *jobProgress {
	return &jobProgress{w: a.Stderr, form: form, line: a.Progress(), now: time.Now}
}

// begin notes where the sources begin.
func (p *jobProgress) begin(triggers []uniflow.Trigger) {
	for _, t := range triggers {
		if t.Progress != nil {
			p.sources = append(p.sources, t)
		}
	}
	p.last = make([]node.Progress, len(p.sources))
	p.began, p.wrote = p.now(), p.now()
	p.start = p.amount()
	p.recent = []sample{{p.began, p.start.messages}}
}

// look asks the sources how far they are.
func (p *jobProgress) look() {
	for i, s := range p.sources {
		now := s.Progress()
		if now.Total == 0 {
			now.Done, now.Total = max(now.Done, p.last[i].Done), p.last[i].Total
		}
		select {
		case <-s.Finished:
			now.Done = max(now.Done, now.Total)
		default:
		}
		p.last[i] = now
	}
}

// amount asks the sources, and adds up what they say.
func (p *jobProgress) amount() (a amount) {
	p.look()
	known := len(p.sources) > 0
	for _, each := range p.last {
		a.messages += each.Messages
		a.failed += each.Failed
		a.dead += each.DeadLetters
		a.done += each.Done
		a.total += each.Total
		known = known && each.Total > 0
	}
	if !known {
		a.total = 0
	}
	return a
}

// share is how much of the work is done, from 0 to 1; below 0 if that is not known.
func (a amount) share() float64 {
	if a.total <= 0 {
		return -1
	}
	return min(1, float64(a.done)/float64(a.total))
}

// timeLeft is how long the rest will take at the pace so far; 0 if that is not known.
func (p *jobProgress) timeLeft(a amount) time.Duration {
	done, left := a.done-p.start.done, a.total-a.done
	if a.total <= 0 || done <= 0 || left <= 0 {
		return 0
	}
	return time.Duration(float64(p.now().Sub(p.began)) * float64(left) / float64(done))
}

// rate is how many messages a second there were lately.
func (p *jobProgress) rate(a amount) int64 {
	now := p.now()
	p.recent = append(p.recent, sample{now, a.messages})
	for len(p.recent) > 1 && now.Sub(p.recent[0].at) > 3*time.Second {
		p.recent = p.recent[1:]
	}
	return show.PerSecond(int64(a.messages-p.recent[0].messages), now.Sub(p.recent[0].at))
}

// tick shows how far the sources are, if it is time to.
func (p *jobProgress) tick() {
	switch p.form {
	case progressAuto:
		p.line.Line(p.text())
	case progressJSON:
		if p.now().Sub(p.wrote) >= time.Second {
			p.wrote = p.now()
			p.writeJSON("")
		}
	}
}

// text is the line for a terminal: at most 79 characters, as a longer one could not be
// erased.
func (p *jobProgress) text() string {
	a := p.amount()
	var parts []string
	if share := a.share(); share >= 0 {
		parts = append(parts, fmt.Sprintf("%s [%-12s]", show.WholePercent(share), show.Bar(share/2, 1)))
	}
	parts = append(parts, show.Thousands(int64(a.messages))+" messages", show.Thousands(p.rate(a))+"/s")
	if a.failed > 0 {
		parts = append(parts, show.Thousands(int64(a.failed))+" failed")
	}
	if a.dead > 0 {
		parts = append(parts, show.Thousands(int64(a.dead))+" dead")
	}
	if left := p.timeLeft(a); left > 0 {
		parts = append(parts, left.Round(time.Second).String()+" left")
	}
	text := []rune(strings.Join(parts, "  "))
	return string(text[:min(len(text), 79)])
}

// progressBody is a line of --progress json.
type progressBody struct {
	Time        time.Time    `json:"time"`
	Seconds     float64      `json:"seconds"` // since the job began
	Messages    uint64       `json:"messages"`
	Failed      uint64       `json:"failed"`
	DeadLetters uint64       `json:"dead_letters"`
	PerSecond   int64        `json:"per_second"`      // lately; in the last line since the job began
	Share       *float64     `json:"share,omitempty"` // of the work, from 0 to 1
	SecondsLeft *float64     `json:"seconds_left,omitempty"`
	Sources     []sourceBody `json:"sources"`
	End         bool         `json:"end,omitempty"` // the last line
	Error       string       `json:"error,omitempty"`
}

type sourceBody struct {
	Name        string `json:"name"`
	Messages    uint64 `json:"messages"`
	Failed      uint64 `json:"failed"`
	DeadLetters uint64 `json:"dead_letters"`
	Done        int64  `json:"done"`
	Total       int64  `json:"total,omitempty"`
	Error       string `json:"error,omitempty"`
}

// writeJSON writes a line; kind is empty, or "end".
func (p *jobProgress) writeJSON(kind string) {
	a, now := p.amount(), p.now()
	body := progressBody{
		Time: now.UTC(), Seconds: now.Sub(p.began).Seconds(), Messages: a.messages, Failed: a.failed, DeadLetters: a.dead,
		PerSecond: p.rate(a), Sources: []sourceBody{}, End: kind == "end",
	}
	if body.End {
		body.PerSecond = show.PerSecond(int64(a.messages), now.Sub(p.began))
	}
	if share := a.share(); share >= 0 {
		body.Share = &share
	}
	if left := p.timeLeft(a).Seconds(); left > 0 {
		body.SecondsLeft = &left
	}
	for i, s := range p.sources {
		each := p.last[i]
		b := sourceBody{Name: s.Node.String(), Messages: each.Messages, Failed: each.Failed, DeadLetters: each.DeadLetters, Done: each.Done, Total: each.Total}
		if each.Err != nil {
			b.Error = node.Message(each.Err)
			body.Error = b.Error
		}
		body.Sources = append(body.Sources, b)
	}
	line, err := json.Marshal(body)
	if err != nil { // a number that is not finite
		return
	}
	_, _ = p.w.Write(append(line, '\n')) // there is nowhere to report a failure
}

// note prints a message on a line of its own.
func (p *jobProgress) note(format string, args ...any) {
	if p.form == progressAuto {
		p.line.End()
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// summary prints the totals of a job.
func (p *jobProgress) summary() {
	if p.began.IsZero() { // a signal came while the nodes opened
		return
	}
	switch p.form {
	case progressJSON:
		p.writeJSON("end")
	case progressAuto:
		a, took := p.amount(), p.now().Sub(p.began)
		p.note("%s in %s, %s/s; %s, %s", show.Count(int64(a.messages), "message"), show.Duration(took),
			show.Thousands(show.PerSecond(int64(a.messages), took)), show.Count(int64(a.failed), "failed attempt"), show.Count(int64(a.dead), "dead letter"))
	}
}

// logger returns the log of the engine. On a terminal a record takes the place of the
// line, which is drawn again later.
func (p *jobProgress) logger(debug bool, format string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelWarn}
	if debug {
		opts.Level = slog.LevelDebug
	}
	w := &aboveLine{p: p}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// An aboveLine writes to standard error once the line is erased.
type aboveLine struct {
	p  *jobProgress
	mu sync.Mutex
}

// Write writes a record in place of the line.
func (w *aboveLine) Write(record []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.p.line.End()
	return w.p.w.Write(record)
}
