package top

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// A model is what the screen shows. It knows no terminal.
type model struct {
	status api.Status
	hello  api.Hello
	now    api.Metrics
	before api.Metrics // the event before that
	rows   []row       // by the indexes of hello

	sort   int    // index of the column that rows are sorted by
	filter string // rows whose name or kind has it are shown
	typing bool   // keys go into the filter
	help   bool
	first  int // the first row that is shown
}

// A row is a node.
type row struct {
	api.NodeMetrics
	of   api.MetricsOf
	past []float64 // rates, the latest last
}

// name is what the row is called.
func (r *row) name() string {
	if r.of.Name == "" {
		return "(" + r.of.Kind + ")"
	}
	return r.of.Name
}

// minute is how many rates a row keeps: one a second.
const minute = 60

// event takes one of a stream. It reports whether there are rates to show.
func (m *model) event(e api.Event) (rates bool, err error) {
	switch e.Type {
	case "hello":
		before := m.rows
		var hello api.Hello // a new one: a field that is left out would stay as it was
		if err := json.Unmarshal(e.Data, &hello); err != nil {
			return false, err
		}
		m.hello = hello
		m.rows = make([]row, len(m.hello.Nodes))
		for i, of := range m.hello.Nodes {
			m.rows[i].of = of
			if at := slices.IndexFunc(before, func(r row) bool { return r.of == of }); at >= 0 {
				m.rows[i].past = before[at].past
			}
		}
	case "metrics":
		var now api.Metrics
		if err := json.Unmarshal(e.Data, &now); err != nil {
			return false, err
		}
		m.before, m.now = m.now, now
		for _, changed := range now.Rows {
			if changed.Node < 0 || changed.Node >= len(m.rows) {
				return false, fmt.Errorf("a row of node %d of %d", changed.Node, len(m.rows))
			}
			m.rows[changed.Node].NodeMetrics = changed
		}
		for i := range m.rows {
			r := &m.rows[i]
			if r.past = append(r.past, r.Rate); len(r.past) > minute {
				r.past = r.past[1:]
			}
		}
	}
	return !m.before.Time.IsZero(), nil
}

// A column is one of the table.
type column struct {
	head  string
	width int // 0 for the rest of the line
	text  func(*row) string
	order func(a, b *row) int // the first comes first
}

func falling(value func(*row) float64) func(a, b *row) int {
	return func(a, b *row) int { return cmp.Compare(value(b), value(a)) }
}

func seconds(s float64) string {
	if s == 0 {
		return ""
	}
	return show.Duration(time.Duration(s * float64(time.Second)))
}

func share(part float64) string {
	if part == 0 {
		return "0 %"
	}
	return show.WholePercent(part)
}

func columns() []column {
	return []column{
		{"NODE", 0, func(r *row) string { return r.name() }, func(a, b *row) int { return strings.Compare(a.name(), b.name()) }},
		{"KIND", 14, func(r *row) string { return r.of.Kind }, func(a, b *row) int { return strings.Compare(a.of.Kind, b.of.Kind) }},
		{"IN/S", 8, func(r *row) string { return show.Short(r.Rate) }, falling(func(r *row) float64 { return r.Rate })},
		{"ERR/S", 7, func(r *row) string { return show.Short(r.Failing) }, falling(func(r *row) float64 { return r.Failing })},
		{"P50", 8, func(r *row) string { return seconds(r.P50) }, falling(func(r *row) float64 { return r.P50 })},
		{"P99", 8, func(r *row) string { return seconds(r.P99) }, falling(func(r *row) float64 { return r.P99 })},
		{"RUN", 6, func(r *row) string { return share(r.Load) }, falling(func(r *row) float64 { return r.Load })},
		{"LAST MINUTE", 13, func(r *row) string { return spark(r.past, 12) }, falling(func(r *row) float64 { return float64(r.Packets) })},
	}
}

// byRate is the index of the column that rows are sorted by first.
const byRate = 2

// spark draws rates in so many characters: each is the most of its share of a minute.
func spark(past []float64, width int) string {
	const levels = " .:-=+#"
	most := 0.0
	for _, v := range past {
		most = max(most, v)
	}
	b := []byte(strings.Repeat(" ", width))
	for i, v := range past {
		at := (minute - len(past) + i) * width / minute
		level := 0
		if v > 0 {
			level = 1 + int(v/most*float64(len(levels)-2))
		}
		b[at] = levels[max(level, strings.IndexByte(levels, b[at]))]
	}
	return string(b)
}

// shown returns the rows in their order.
func (m *model) shown() []*row {
	var rows []*row
	for i := range m.rows {
		if r := &m.rows[i]; strings.Contains(r.name()+" "+r.of.Kind+" "+r.of.Namespace, m.filter) {
			rows = append(rows, r)
		}
	}
	order := columns()[m.sort].order
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Or(order(a, b), strings.Compare(a.name(), b.name())) })
	return rows
}

// key takes a key, and reports whether it ends the program.
func (m *model) key(key string) (quit bool) {
	if m.typing {
		switch {
		case key == "enter" || key == "escape":
			m.typing = false
			if key == "escape" {
				m.filter = ""
			}
		case key == "backspace":
			if r := []rune(m.filter); len(r) > 0 {
				m.filter = string(r[:len(r)-1])
			}
		case len([]rune(key)) == 1:
			m.filter += key
		}
		m.first = 0
		return false
	}
	switch key {
	case "q", "ctrl-c":
		return true
	case ">", "right":
		m.sort = (m.sort + 1) % len(columns())
	case "<", "left":
		m.sort = (m.sort + len(columns()) - 1) % len(columns())
	case "/":
		m.typing = true
	case "escape":
		m.filter, m.help = "", false
	case "?":
		m.help = !m.help
	case "down":
		m.first++
	case "up":
		m.first--
	}
	return false
}

// helpText is what ? shows in the last line.
const helpText = "< > sort   / filter   up down scroll   Esc clear   q quit"

// lines returns what a screen of a width and a height shows; a height of 0 shows all rows.
func (m *model) lines(width, height int) []string {
	lines := []string{m.title()}
	all := columns()
	fixed := 0
	for _, c := range all {
		fixed += c.width
	}
	for len(all) > byRate+1 && width-fixed < 12 { // the last columns have no room
		fixed -= all[len(all)-1].width
		all = all[:len(all)-1]
	}
	line := func(text func(c column, i int) string) string {
		var b strings.Builder
		for i, c := range all {
			w := c.width
			if w == 0 {
				w = width - fixed
			}
			b.WriteString(cell(text(c, i), w, i >= byRate))
		}
		return strings.TrimRight(b.String(), " ")
	}
	lines = append(lines, line(func(c column, i int) string {
		if i == m.sort {
			return c.head + "*"
		}
		return c.head
	}))
	rows := m.shown()
	room := len(rows)
	if height > 0 {
		room = max(height-3, 0)
	}
	m.first = max(0, min(m.first, len(rows)-room))
	for _, r := range rows[m.first:min(len(rows), m.first+room)] {
		lines = append(lines, line(func(c column, _ int) string { return show.Printable(c.text(r)) }))
	}
	switch {
	case height == 0:
	case m.typing:
		lines = append(lines, "/"+show.Printable(m.filter)+"_")
	case m.help:
		lines = append(lines, helpText)
	case m.filter != "":
		lines = append(lines, fmt.Sprintf("%d of %d nodes with %q", len(rows), len(m.rows), m.filter))
	case len(rows) > room:
		lines = append(lines, fmt.Sprintf("%d to %d of %d nodes", m.first+1, m.first+room, len(rows)))
	}
	for i, text := range lines {
		if r := []rune(text); len(r) > width {
			lines[i] = string(r[:width])
		}
	}
	return lines
}

// title is the first line.
func (m *model) title() string {
	seconds := m.now.Time.Sub(m.before.Time).Seconds()
	rate := func(now, before uint64) string {
		if seconds <= 0 || now < before {
			return "-"
		}
		return show.Short(float64(now-before) / seconds)
	}
	state := "ready"
	if !m.status.Ready {
		state = "not ready"
	}
	up := m.now.Time.Sub(m.status.Started).Truncate(time.Second)
	return fmt.Sprintf("uniflow top  gen %d  up %s  %s/s  %d running  %s failed/s  %s  ? help",
		m.hello.Generation, max(up, 0), rate(m.now.Started, m.before.Started), m.now.InFlight, rate(m.now.Failed, m.before.Failed), state)
}

// cell fits a text into a column, with a space after it.
func cell(text string, width int, right bool) string {
	r := []rune(text)
	if len(r) > width-1 {
		r = append(r[:max(width-2, 0)], '…')
	}
	space := strings.Repeat(" ", max(width-1-len(r), 0))
	if right {
		return space + string(r) + " "
	}
	return string(r) + space + " "
}
