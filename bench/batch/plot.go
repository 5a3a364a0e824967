package main

import (
	"context"
	"fmt"
	"html"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/batch/channels"
	"github.com/uniflow-labs/uniflow/bench/batch/model"
	"github.com/uniflow-labs/uniflow/bench/show"
)

// A point is a measured one.
type point struct{ x, y float64 }

// A series is points of a kind.
type series struct {
	name   string
	color  string
	points []point
	rule   bool // a line that was calculated, not measured
}

// plotQueues are the queues that are measured, as multiples of rate × latency.
func plotQueues() []float64 { return []float64{0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2} }

// plotLatencies are those of the server that they are measured with.
func plotLatencies() []time.Duration {
	return []time.Duration{75 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond}
}

// plotLingers are those of the other panel. A second of the protocol's rate is a
// batch's limit.
func plotLingers() []time.Duration {
	var all []time.Duration
	for _, ms := range []int{50, 100, 200, 350, 500, 750, 900} {
		all = append(all, time.Duration(ms)*time.Millisecond)
	}
	return all
}

// atOnce is how many arms run at the same time for a plot: at the protocol's
// rate each takes a few hundredths of a processor.
const atOnce = 3

// A trial is one arm of the plot, and where its point goes.
type trial struct {
	entrant
	length time.Duration
	result *arm.Result
}

// String says what a trial is about.
func (t *trial) String() string {
	if t.linger > 0 {
		return fmt.Sprintf("%s, linger %v", t.name, t.linger)
	}
	return fmt.Sprintf("10 workers sync, latency %v, queue of %d", t.late, t.queue)
}

// draw measures and draws into the file.
func draw(ctx context.Context, l *lab, file string) error {
	var trials []trial
	short := min(max(l.length(), time.Second), 4*time.Second)
	sized := channels.Sized()
	for _, late := range plotLatencies() {
		for _, q := range plotQueues() {
			trials = append(trials, trial{entrant: entrant{
				name: sized.Name, mode: model.Parallel, late: late, queue: int(q * float64(l.rate) * late.Seconds()),
			}, length: short})
		}
	}
	for _, linger := range plotLingers() {
		trials = append(trials, trial{entrant: entrant{name: nameOurs, mode: model.Parallel, linger: linger}, length: short})
	}
	if err := l.tryAll(ctx, trials); err != nil {
		return err
	}
	var loss []series
	colors := []string{"#1b6ca8", "#c8553d", "#588157"}
	for i, late := range plotLatencies() {
		s := series{name: fmt.Sprintf("latency %v", late), color: colors[i%len(colors)]}
		for _, q := range plotQueues() {
			r := trials[0].result
			trials = trials[1:]
			s.points = append(s.points, point{q, 100 * float64(r.Accepted) / float64(max(r.Offered, 1))})
		}
		loss = append(loss, s)
	}
	age := series{name: "measured", color: colors[0]}
	rule := series{name: "linger + latency", color: "#d9c9a3", rule: true}
	for _, linger := range plotLingers() {
		x := float64(linger.Milliseconds())
		age.points = append(age.points, point{x, trials[0].result.AgeP99})
		rule.points = append(rule.points, point{x, x + float64(latency.Milliseconds())})
		trials = trials[1:]
	}
	svg := drawing(
		panel{
			title: fmt.Sprintf("10 synchronous workers, %s events/s: accepted", show.Thousands(int64(l.rate))),
			x:     "queue ÷ (rate × latency)", y: "accepted, %", maxX: 2, minY: 30, maxY: 100, stepX: 0.5, stepY: 10, series: loss, mark: 1,
		},
		panel{
			title: fmt.Sprintf("package batch, latency %v: age of events when taken", latency),
			x:     "linger, ms", y: "age p99, ms", maxX: 1000, maxY: 1200, stepX: 200, stepY: 200, series: []series{rule, age},
		},
	)
	return os.WriteFile(file, []byte(svg), 0o644)
}

// tryAll measures all trials, some at once.
func (l *lab) tryAll(ctx context.Context, trials []trial) error {
	slots := make(chan struct{}, atOnce)
	errs := make([]error, len(trials))
	l.steps = len(trials)
	l.left = time.Duration(len(trials)) * (trials[0].length + overhead) / atOnce
	var all sync.WaitGroup
	for i := range trials {
		t := &trials[i]
		slots <- struct{}{}
		if i >= atOnce && ctx.Err() != nil {
			break
		}
		l.step((t.length+overhead)/atOnce, "plot: %s", t)
		all.Go(func() {
			defer func() { <-slots }()
			t.result, errs[i] = l.measure(ctx, &t.entrant, arm.Deliver, t.length, l.client)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// A panel is one diagram.
type panel struct {
	title, x, y  string
	maxX         float64 // from 0
	minY, maxY   float64
	stepX, stepY float64 // of the grid
	series       []series
	mark         float64 // a line upwards, if not 0
}

// Sizes in pixels.
const (
	panelWidth  = 460
	panelHeight = 340
	marginLeft  = 56
	marginTop   = 40
	marginRight = 16
	marginBelow = 48
)

// drawing returns the panels side by side, as SVG.
func drawing(panels ...panel) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12">`+"\n", panelWidth*len(panels), panelHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", panelWidth*len(panels), panelHeight)
	for i := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d 0)">`+"\n", i*panelWidth)
		panels[i].draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// at returns where a point is.
func (p *panel) at(q point) (x, y float64) {
	width, height := float64(panelWidth-marginLeft-marginRight), float64(panelHeight-marginTop-marginBelow)
	share := min(max((q.y-p.minY)/(p.maxY-p.minY), 0), 1)
	return marginLeft + q.x/p.maxX*width, marginTop + (1-share)*height
}

func (p *panel) draw(b *strings.Builder) {
	left, bottom := p.at(point{0, p.minY})
	right, top := p.at(point{p.maxX, p.maxY})
	text := func(x, y float64, anchor, color, s string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, color, html.EscapeString(s))
	}
	line := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
	}
	fmt.Fprintf(b, `<text x="%.1f" y="20" font-weight="600" font-size="12.5" fill="#222222">%s</text>`+"\n", 12.0, html.EscapeString(p.title))
	for v := 0.0; v <= p.maxX; v += p.stepX {
		x, _ := p.at(point{v, p.minY})
		line(x, top, x, bottom, `stroke="#e6e6e6"`)
		text(x, bottom+16, "middle", "#444444", number(v))
	}
	for v := p.minY; v <= p.maxY; v += p.stepY {
		_, y := p.at(point{0, v})
		line(left, y, right, y, `stroke="#e6e6e6"`)
		text(left-6, y+4, "end", "#444444", number(v))
	}
	if p.mark > 0 {
		x, _ := p.at(point{p.mark, p.minY})
		line(x, top, x, bottom, `stroke="#222222" stroke-dasharray="4 3"`)
		text(x+6, bottom-8, "start", "#222222", "queue = rate × latency")
	}
	text((left+right)/2, bottom+36, "middle", "#222222", p.x)
	fmt.Fprintf(b, `<text transform="translate(14 %.1f) rotate(-90)" text-anchor="middle" fill="#222222">%s</text>`+"\n", (top+bottom)/2, html.EscapeString(p.y))
	for i := range p.series {
		p.series[i].draw(b, p)
		y := bottom - 30 - float64(len(p.series)-i)*16
		line(right-138, y-4, right-120, y-4, p.series[i].style())
		text(right-112, y, "start", "#222222", p.series[i].name)
	}
}

func (s *series) style() string {
	if s.rule {
		return fmt.Sprintf(`stroke="%s" stroke-width="9"`, s.color) // under what was measured
	}
	return fmt.Sprintf(`stroke="%s" stroke-width="2"`, s.color)
}

func (s *series) draw(b *strings.Builder, p *panel) {
	var path strings.Builder
	for i, q := range s.points {
		x, y := p.at(q)
		fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: " L"}[i == 0], x, y)
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" %s/>`+"\n", path.String(), s.style())
	if s.rule {
		return
	}
	for _, q := range s.points {
		x, y := p.at(q)
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>%s</title></circle>`+"\n", x, y, s.color,
			html.EscapeString(fmt.Sprintf("%s: %s %.4g, %s %.4g", s.name, p.x, q.x, p.y, q.y)))
	}
}
