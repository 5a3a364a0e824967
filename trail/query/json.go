package query

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// MarshalJSON returns the answer as one object: the keys of its kind, then stats.
// The order of keys is always the same. Only answers of a sample have intervals.
//
//	funnel     {"steps":[{"event":"view","users":9}],"groups":[{"country":"KR","steps":[…]},{"other":true,"steps":[…]}],
//	           "trend":[{"bucket":"2026-01-05","steps":[…]}],"stats":{…}}
//	a step     {"event":"cart","users":4,"time":{"median_ms":9,"p90_ms":9,"histogram":[{"below":"1h","users":4},{"users":1}]}}
//	retention  {"cohorts":[{"start":"2026-01-05","size":9,"periods":[9,4]}],"stats":{…}}
//	segment    {"rows":[{"bucket":"2026-01-05","country":"KR","value":9},{"bucket":"2026-01-05","other":true,"value":4}],"stats":{…}}
//	cohort     {"cohort":"buyers","users":9,"ids":["u1"],"stats":{…}}
//	paths      {"paths":[{"path":["a","b"],"users":9}],"stats":{…}}
//	stats      {"events_read":9,"bytes_read":9,"segments":1,"sample":1.0,"elapsed_us":9,"through":"2026-01-31T09:00:00Z","warnings":["…"]}
//
// A count of a sample is followed by "ci":[low,high], in a retention by "size_ci"
// and "periods_ci". The groups, times and trend of a funnel and the ids of a cohort are
// there if they were asked for. A missing value of a group is "". The bucket of a
// histogram without "below" has no bound. A number that JSON cannot hold is null.
func (a *Answer) MarshalJSON() ([]byte, error) {
	w := &jsonWriter{}
	a.Write(w)
	return w.b, nil
}

// Write writes what MarshalJSON returns, in the same order.
func (a *Answer) Write(to Writer) {
	w := answerWriter{to}
	w.Open('{')
	for _, k := range kinds() {
		if k.answers(a) {
			k.write(w, a)
		}
	}
	w.stats(a.Stats)
	w.Close('}')
}

// A Writer receives the parts of an answer.
type Writer interface {
	Open(bracket byte) // '{' begins an object, and '[' an array
	Close(bracket byte)
	Key(name string) // before each value in an object
	Text(s string)
	Int(i int64)
	Float(f float64) // also an infinity or NaN
	Bool(b bool)
	Null()
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

func (w *jsonWriter) Open(bracket byte) {
	w.next()
	w.b = append(w.b, bracket)
	w.comma = false
}

func (w *jsonWriter) Close(bracket byte) {
	w.b = append(w.b, bracket)
	w.comma = true
}

func (w *jsonWriter) Key(name string) {
	w.Text(name)
	w.b = append(w.b, ':')
	w.comma = false
}

func (w *jsonWriter) Text(s string) {
	w.next()
	b := bytes.NewBuffer(w.b)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings always encode, in one line
	w.b = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func (w *jsonWriter) Int(i int64) {
	w.next()
	w.b = strconv.AppendInt(w.b, i, 10)
}

func (w *jsonWriter) Float(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.Null()
		return
	}
	w.next()
	w.b = append(w.b, event.FloatOf(f).String()...)
}

func (w *jsonWriter) Bool(b bool) {
	w.next()
	w.b = strconv.AppendBool(w.b, b)
}

func (w *jsonWriter) Null() {
	w.next()
	w.b = append(w.b, "null"...)
}

// An answerWriter writes what the kinds of answers share.
type answerWriter struct{ Writer }

func (w answerWriter) text(key, s string) {
	w.Key(key)
	w.Text(s)
}

func (w answerWriter) int(key string, i int64) {
	w.Key(key)
	w.Int(i)
}

// writeList writes a key, and an array of what write makes of each element.
func writeList[T any](w answerWriter, key string, list []T, write func(T)) {
	w.Key(key)
	w.Open('[')
	for _, x := range list {
		write(x)
	}
	w.Close(']')
}

// writeObjects is writeList for objects, whose members write makes.
func writeObjects[T any](w answerWriter, key string, list []T, write func(T)) {
	writeList(w, key, list, func(x T) {
		w.Open('{')
		write(x)
		w.Close('}')
	})
}

// ci is the interval of a count of a sample.
func (w answerWriter) ci(n Number) {
	w.Open('[')
	w.Int(n.Low)
	w.Int(n.High)
	w.Close(']')
}

func (w answerWriter) users(n Number) {
	w.int("users", n.N)
	if n.Sampled {
		w.Key("ci")
		w.ci(n)
	}
}

func (w answerWriter) value(v event.Value) {
	switch v.Type() {
	case event.Int:
		w.Int(v.Int())
	case event.Float:
		w.Float(v.Float())
	case event.Bool:
		w.Bool(v.Bool())
	default:
		w.Text(v.Text())
	}
}

// group is the values of a group by their names, or {"other":true}.
func (w answerWriter) group(by []string, values []event.Value, other bool) {
	if other {
		w.Key("other")
		w.Bool(true)
		return
	}
	for i, name := range by {
		w.Key(name)
		w.value(values[i])
	}
}

func (w answerWriter) stats(s Stats) {
	w.Key("stats")
	w.Open('{')
	w.int("events_read", s.EventsRead)
	w.int("bytes_read", s.BytesRead)
	w.int("segments", int64(s.Segments))
	w.Key("sample")
	w.Float(s.Sample)
	if j, ok := w.Writer.(*jsonWriter); ok && s.Sample == math.Trunc(s.Sample) {
		j.b = append(j.b, ".0"...) // so that it looks like a share
	}
	w.int("elapsed_us", s.ElapsedUS)
	if s.HasThrough {
		w.text("through", formatTime(s.Through))
	}
	if len(s.Warnings) > 0 {
		writeList(w, "warnings", s.Warnings, w.Text)
	}
	w.Close('}')
}
