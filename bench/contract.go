package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// A Bound is a limit that a value has to keep.
type Bound struct {
	Limit float64
	Most  bool // the value may be at most Limit; otherwise at least
}

// AtLeast returns the bound that a value must reach.
func AtLeast(limit float64) Bound { return Bound{Limit: limit} }

// AtMost returns the bound that a value must not pass.
func AtMost(limit float64) Bound { return Bound{Limit: limit, Most: true} }

// Keeps reports whether the value is within the bound.
func (b Bound) Keeps(value float64) bool {
	if b.Most {
		return value <= b.Limit
	}
	return value >= b.Limit
}

// slack is how far a value is from the bound, 1 at the bound, less beyond it.
func (b Bound) slack(value float64) float64 {
	switch {
	case !b.Most:
		return value / b.Limit
	case value <= 0:
		return math.Inf(1)
	}
	return b.Limit / value
}

// A Line is one of the contract: what has to hold, and what comes after that.
type Line struct {
	ID       string // P1 to P14, and N1 to N11
	Measure  string
	Unit     string // of the value, as in "x" or "ns"
	Contract Bound
	Goal     Bound
}

// Contract returns the lines in order.
func Contract() []Line {
	return []Line{
		{"P1", "ping, keep-alive, 64 connections ÷ net/http mux", "x", AtLeast(1), AtLeast(1.3)},
		{"P2", "ping, 1,024 connections, no keep-alive ÷ net/http mux", "x", AtLeast(0.90), AtLeast(1)},
		{"P3", "chain of 50 pass-through nodes ÷ ping", "x", AtLeast(0.80), AtLeast(0.95)},
		{"P4", "one-to-one hop inside a process", "ns", AtMost(100), AtMost(40)},
		{"P5", "process: start, one hop, response, end", "ns", AtMost(600), AtMost(250)},
		{"P6", "value codec of structs ÷ plain reflection", "x", AtLeast(4), AtLeast(8)},
		{"P7", "JSON and values ÷ encoding/json into any", "x", AtLeast(2), AtLeast(4)},
		{"P8", "share of the ping server's CPU in values", "%", AtMost(3), AtMost(1)},
		{"P9", "reloads under load: failed requests", "failed", AtMost(0), AtMost(0)},
		{"P10", "10,000 nodes: check, and start until it answers", "s", AtMost(2), AtMost(0.5)},
		{"P11", "resident memory", "MB", AtMost(40), AtMost(25)},
		{"P12", "debugger and taps off ÷ without", "x", AtLeast(0.99), AtLeast(1)},
		{"P13", "throughput on 2 processors ÷ on 1", "x", AtLeast(1.8), AtLeast(1.95)},
		{"P14", "ping: from its start to its first answer", "ms", AtMost(12), AtMost(9)},
		{"N1", "orders API of 8 nodes, JSON in and out ÷ the same by hand", "x", AtLeast(1), AtLeast(1.1)},
		{"N2", "sql, PostgreSQL: select of 100 rows ÷ pgx", "x", AtLeast(0.80), AtLeast(1)},
		{"N3", "sql, SQLite: select of 100 rows ÷ database/sql", "x", AtLeast(0.80), AtLeast(1)},
		{"N4", "http: a call with JSON ÷ net/http client", "x", AtLeast(0.85), AtLeast(1)},
		{"N5", "for: an element of 1,000, beyond its body", "ns", AtMost(150), AtMost(75)},
		{"N6", "static: a file of a folder ÷ http.FileServer", "x", AtLeast(0.9), AtLeast(1)},
		{"N7", "proxy: an answer of another server ÷ httputil.ReverseProxy", "x", AtLeast(0.9), AtLeast(1)},
		{"N8", "orders API with JWT and JSON Schema ÷ the same by hand", "x", AtLeast(0.75), AtLeast(1)},
		{"N9", "wasm: a process with a call, 300 bytes in and out", "ns", AtMost(3000), AtMost(1500)},
		{"N10", "wasm: SHA-256 in Rust ÷ a snippet in JavaScript", "x", AtLeast(20), AtLeast(200)},
		{"N11", "wasm: prices of an order in Rust ÷ a snippet in JavaScript", "x", AtLeast(1), AtLeast(1.5)},
	}
}

// Find returns the line of the contract with the id.
func Find(id string) (Line, bool) {
	for _, l := range Contract() {
		if l.ID == id {
			return l, true
		}
	}
	return Line{}, false
}

// A Row is one measurement.
type Row struct {
	Line
	Part     string // what this row is about where a line has several
	Ours     float64
	Baseline float64
	Value    float64  // what the bounds are about
	Figures  string   // the unit of Ours and Baseline, as in "req/s"
	Side     bool     // shown for comparison: the contract is not about it
	Missing  string   // why there is no measurement; the figures are then 0
	Broken   []string // what breaks the contract besides the value
	Beyond   []string // what misses the goal besides the value
	Notes    []string
}

// Ratio sets Ours, Baseline, and Value to what the first is of the second.
func (r *Row) Ratio(ours, baseline float64) {
	r.Ours, r.Baseline = ours, baseline
	if baseline != 0 {
		r.Value = ours / baseline
	}
}

// Met reports whether the row keeps its contract.
func (r *Row) Met() bool {
	return r.Missing == "" && len(r.Broken) == 0 && r.Contract.Keeps(r.Value)
}

func (r *Row) verdict() string {
	switch {
	case r.Missing != "":
		return "not measured"
	case r.Side:
		return "(compared)"
	case !r.Met():
		return "NO"
	case r.Goal.Keeps(r.Value) && len(r.Beyond) == 0:
		return "yes, and the goal"
	}
	return "yes"
}

// Table writes the rows, and under them their notes.
func Table(w io.Writer, rows []Row) error {
	var t program.Table
	t.Text("", "measure")
	t.Figures("ours", "baseline", "value", "contract", "goal")
	t.Text("met")
	for i := range rows {
		r := &rows[i]
		measure, ours, baseline, value := r.Measure, "–", "–", "–"
		if r.Part != "" {
			measure += ": " + r.Part
		}
		if r.Missing == "" {
			ours, baseline, value = unit(number(r.Ours), r.Figures), unit(number(r.Baseline), r.Figures), unit(number(r.Value), r.Unit)
		}
		t.Row(r.ID, measure, ours, baseline, value, r.bound(r.Contract), r.bound(r.Goal), r.verdict())
	}
	if err := t.Print(w, "The contract"); err != nil {
		return err
	}
	var notes strings.Builder
	for i := range rows {
		r := &rows[i]
		id := r.ID
		if r.Part != "" {
			id += ", " + r.Part
		}
		if r.Missing != "" {
			fmt.Fprintf(&notes, "%s: %s\n", id, r.Missing)
		}
		for _, b := range r.Broken {
			fmt.Fprintf(&notes, "%s: BROKEN: %s\n", id, b)
		}
		for _, b := range r.Beyond {
			fmt.Fprintf(&notes, "%s: short of the goal: %s\n", id, b)
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&notes, "%s: %s\n", id, n)
		}
	}
	_, err := io.WriteString(w, "\n"+notes.String())
	return err
}

func (r *Row) bound(b Bound) string {
	if r.Side {
		return ""
	}
	sign := "≥ "
	if b.Most {
		sign = "≤ "
	}
	return sign + unit(strconv.FormatFloat(b.Limit, 'f', -1, 64), r.Unit)
}

func unit(n, u string) string {
	switch u {
	case "":
		return n
	case "x", "%":
		return n + u
	}
	return n + " " + u
}

// number writes three digits that matter, and no exponent.
func number(f float64) string {
	switch a := math.Abs(f); {
	case a == 0:
		return "0"
	case a >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return strconv.FormatFloat(f, 'f', 3, 64)
}

// A Figure is what engine.json says of a line.
type Figure struct {
	Ours     float64 `json:"ours"`
	Baseline float64 `json:"baseline"`
	Value    float64 `json:"value"`
	Contract float64 `json:"contract"`
	Breaks   int     `json:"breaks,omitempty"` // what breaks the contract besides the value
}

// Figures returns the [Figure] of each line that was measured: of several rows,
// that which is closest to breaking its contract.
func Figures(rows []Row) map[string]Figure {
	worst := make(map[string]*Row)
	for i := range rows {
		r := &rows[i]
		if w := worst[r.ID]; !r.Side && r.Missing == "" && (w == nil || r.rank() < w.rank()) {
			worst[r.ID] = r
		}
	}
	figures := make(map[string]Figure, len(worst))
	for id, r := range worst {
		figures[id] = Figure{r.Ours, r.Baseline, r.Value, r.Contract.Limit, len(r.Broken)}
	}
	return figures
}

// rank orders rows by how close they are to breaking the contract.
func (r *Row) rank() float64 {
	if len(r.Broken) > 0 {
		return -1
	}
	return r.Contract.slack(r.Value)
}
