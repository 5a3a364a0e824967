package query

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// MarshalJSON returns the answer as one object: the keys of its kind, then stats.
// The order of keys is always the same. Only answers of a sample have intervals.
//
//	funnel     {"steps":[{"event":"view","users":9}],"groups":[{"country":"KR","steps":[…]}],"stats":{…}}
//	retention  {"cohorts":[{"start":"2026-01-05","size":9,"periods":[9,4]}],"stats":{…}}
//	segment    {"rows":[{"bucket":"2026-01-05","country":"KR","value":9}],"stats":{…}}
//	cohort     {"cohort":"buyers","users":9,"ids":["u1"],"stats":{…}}
//	paths      {"paths":[{"path":["a","b"],"users":9}],"stats":{…}}
//	stats      {"events_read":9,"bytes_read":9,"segments":1,"sample":1.0,"elapsed_us":9,"through":"2026-01-31T09:00:00Z","warnings":["…"]}
//
// A count of a sample is followed by "ci":[low,high], in a retention by "size_ci"
// and "periods_ci". The groups of a funnel and the ids of a cohort are there if they
// were asked for. A missing value of a group is "". A number that JSON cannot hold is
// null.
func (a *Answer) MarshalJSON() ([]byte, error) {
	w := &jsonWriter{}
	w.open('{')
	for _, k := range kinds() {
		if k.answers(a) {
			k.write(w, a)
		}
	}
	w.stats(a.Stats)
	w.close('}')
	return w.b, nil
}

// A jsonWriter writes JSON. It does not use encoding/json, since the keys of groups are
// the names of properties.
type jsonWriter struct {
	b     []byte
	comma bool // before what comes next
}

func (w *jsonWriter) next() {
	if w.comma {
		w.b = append(w.b, ',')
	}
	w.comma = true
}

func (w *jsonWriter) open(bracket byte) {
	w.next()
	w.b = append(w.b, bracket)
	w.comma = false
}

func (w *jsonWriter) close(bracket byte) {
	w.b = append(w.b, bracket)
	w.comma = true
}

func (w *jsonWriter) key(name string) {
	w.text(name)
	w.b = append(w.b, ':')
	w.comma = false
}

func (w *jsonWriter) text(s string) {
	w.next()
	w.b = append(w.b, jsonText(s)...)
}

// jsonText returns text as a JSON string, with < and > as they are.
func jsonText(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // strings always encode
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (w *jsonWriter) integer(i int64) {
	w.next()
	w.b = strconv.AppendInt(w.b, i, 10)
}

func (w *jsonWriter) float(f float64) {
	w.next()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.b = append(w.b, "null"...)
		return
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	w.b = strconv.AppendFloat(w.b, f, format, -1, 64)
}

// ci is the interval of a count of a sample.
func (w *jsonWriter) ci(n Number) {
	w.open('[')
	w.integer(n.Low)
	w.integer(n.High)
	w.close(']')
}

func (w *jsonWriter) users(n Number) {
	w.key("users")
	w.integer(n.N)
	if n.Sampled {
		w.key("ci")
		w.ci(n)
	}
}

// value is a value of a group.
func (w *jsonWriter) value(v event.Value) {
	switch v.Type() {
	case event.Int:
		w.integer(v.Int())
	case event.Float:
		w.float(v.Float())
	case event.Bool:
		w.next()
		w.b = strconv.AppendBool(w.b, v.Bool())
	default:
		w.text(v.Text())
	}
}

func (w *jsonWriter) stats(s Stats) {
	w.key("stats")
	w.open('{')
	w.key("events_read")
	w.integer(s.EventsRead)
	w.key("bytes_read")
	w.integer(s.BytesRead)
	w.key("segments")
	w.integer(int64(s.Segments))
	w.key("sample")
	w.float(s.Sample)
	if s.Sample == math.Trunc(s.Sample) {
		w.b = append(w.b, ".0"...) // a share, also where it is all
	}
	w.key("elapsed_us")
	w.integer(s.ElapsedUS)
	if s.HasThrough {
		w.key("through")
		w.text(formatTime(s.Through))
	}
	if len(s.Warnings) > 0 {
		w.key("warnings")
		w.open('[')
		for _, warning := range s.Warnings {
			w.text(warning)
		}
		w.close(']')
	}
	w.close('}')
}
