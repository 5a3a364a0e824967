package profile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/flame"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// What profile --json prints. Shares are from 0 to 1.
type (
	nodeJSON struct {
		Node      string     `json:"node"`
		Kind      string     `json:"kind,omitempty"`
		Namespace string     `json:"namespace,omitempty"`
		Seconds   float64    `json:"seconds"`
		Share     float64    `json:"share"`
		Functions []partJSON `json:"functions"`
	}
	kindJSON struct {
		Kind    string     `json:"kind"`
		Count   int        `json:"count"` // of nodes
		Seconds float64    `json:"seconds"`
		Share   float64    `json:"share"`
		Nodes   []partJSON `json:"nodes"`
	}
	functionJSON struct {
		Function          string  `json:"function"`
		Seconds           float64 `json:"seconds"`
		Share             float64 `json:"share"`
		CumulativeSeconds float64 `json:"cumulative_seconds"`
		CumulativeShare   float64 `json:"cumulative_share"`
		Node              string  `json:"node"`
		NodeShare         float64 `json:"node_share"` // of the cumulative time
	}
	partJSON struct {
		Name    string  `json:"name"`
		Seconds float64 `json:"seconds"`
		Share   float64 `json:"share"` // of the row
	}
	othersJSON struct {
		Count   int     `json:"count"`
		Seconds float64 `json:"seconds"`
		Share   float64 `json:"share"`
	}
	reportJSON struct {
		Samples     int64       `json:"samples"`
		CPUSeconds  float64     `json:"cpu_seconds"`
		WallSeconds float64     `json:"wall_seconds,omitempty"`
		By          string      `json:"by"`
		Rows        []any       `json:"rows"`
		Others      *othersJSON `json:"others,omitempty"` // those that --top leaves out
	}
)

// A listing is a profile added up by node, kind or function.
type listing struct {
	header []string // of the columns
	time   int      // the first column of figures: the time, with the share after it
	text   int      // the first column of text again
	rows   []row
}

type row struct {
	cells []string
	spent time.Duration
	json  any
}

func list(p *flame.Profile, by string) (t *listing) {
	switch by {
	case "kind":
		t = &listing{header: []string{"KIND", "TIME", "SHARE", "NODES", "MOSTLY IN"}, time: 1, text: 4}
		for _, r := range p.Kinds() {
			count := ""
			if r.Count > 0 {
				count = strconv.Itoa(r.Count)
			}
			t.rows = append(t.rows, row{
				[]string{r.Kind, show.Duration(r.Time), show.Percent(r.Share), count, parts(r.Nodes, strings.Clone)}, r.Time,
				kindJSON{r.Kind, r.Count, r.Time.Seconds(), r.Share, newPartsJSON(r.Nodes)},
			})
		}
	case "function":
		t = &listing{header: []string{"FUNCTION", "FLAT", "SHARE", "CUM", "SHARE", "MOSTLY FOR"}, time: 1, text: 5}
		for _, r := range p.Functions() {
			most := r.Node.Node + " " + show.WholePercent(r.NodeShare)
			t.rows = append(t.rows, row{
				[]string{flame.Short(r.Function), show.Duration(r.Flat), show.Percent(r.FlatShare), show.Duration(r.Cumulative), show.Percent(r.Share), most}, r.Flat,
				functionJSON{r.Function, r.Flat.Seconds(), r.FlatShare, r.Cumulative.Seconds(), r.Share, r.Node.Node, r.NodeShare},
			})
		}
	default:
		t = &listing{header: []string{"NODE", "KIND", "NAMESPACE", "TIME", "SHARE", "MOSTLY IN"}, time: 3, text: 5}
		for _, r := range p.Nodes() {
			t.rows = append(t.rows, row{
				[]string{r.Node, r.Kind, r.Namespace, show.Duration(r.Time), show.Percent(r.Share), parts(r.Functions, flame.Short)}, r.Time,
				nodeJSON{r.Node, r.Kind, r.Namespace, r.Time.Seconds(), r.Share, newPartsJSON(r.Functions)},
			})
		}
	}
	return t
}

// most returns the largest rows, and the sum of the others.
func (s *listing) most(p *flame.Profile, top int) (rows []row, others *othersJSON) {
	if top == 0 || len(s.rows) <= top {
		return s.rows, nil
	}
	var rest time.Duration
	for _, r := range s.rows[top:] {
		rest += r.spent
	}
	return s.rows[:top], &othersJSON{len(s.rows) - top, rest.Seconds(), rest.Seconds() / p.CPU.Seconds()}
}

func newReportJSON(p *flame.Profile, o *options) reportJSON {
	out := reportJSON{Samples: p.Samples, CPUSeconds: p.CPU.Seconds(), WallSeconds: p.Wall.Seconds(), By: o.by, Rows: []any{}}
	rows, others := list(p, o.by).most(p, o.top)
	for _, r := range rows {
		out.Rows = append(out.Rows, r.json)
	}
	out.Others = others
	return out
}

func table(p *flame.Profile, o *options) string {
	s := list(p, o.by)
	rows, others := s.most(p, o.top)
	var t show.Table
	t.Text(s.header[:s.time]...)
	t.Figures(s.header[s.time:s.text]...)
	t.Text(s.header[s.text:]...)
	for _, r := range rows {
		t.Row(r.cells...)
	}
	if others != nil {
		cells := make([]string, s.time)
		cells[0] = fmt.Sprintf("others (%d)", others.Count)
		spent := time.Duration(others.Seconds * float64(time.Second))
		t.Row(append(cells, show.Duration(spent), show.Percent(others.Share))...)
	}
	return t.String() + "\n" + p.Summary() + "\n"
}

func parts(parts []flame.Part, name func(string) string) string {
	out := make([]string, len(parts))
	for i, part := range parts {
		out[i] = name(part.Name) + " " + show.WholePercent(part.Share)
	}
	return strings.Join(out, ", ")
}

func newPartsJSON(parts []flame.Part) []partJSON {
	out := make([]partJSON, len(parts))
	for i, part := range parts {
		out[i] = partJSON{part.Name, part.Time.Seconds(), part.Share}
	}
	return out
}
