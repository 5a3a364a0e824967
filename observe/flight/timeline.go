package flight

import (
	"bufio"
	"encoding/json"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/observe"
)

// timelineJSON is a timeline in a file. Times are in milliseconds.
type timelineJSON struct {
	Process    string     `json:"process"`
	TraceID    string     `json:"trace_id"`
	Namespace  string     `json:"namespace"`
	Trigger    string     `json:"trigger"`
	Kind       string     `json:"kind"`
	Start      time.Time  `json:"start"`
	Duration   float64    `json:"duration_ms"`
	Outcome    string     `json:"outcome"`
	Error      string     `json:"error,omitempty"`
	Trace      string     `json:"trace,omitempty"` // the file with the runtime's trace
	Spans      []spanJSON `json:"spans"`
	Unrecorded int        `json:"unrecorded,omitempty"`
}

type spanJSON struct {
	Node  string  `json:"node"`
	Kind  string  `json:"kind"`
	Port  int     `json:"port"`
	At    string  `json:"at,omitempty"` // the place of the node's spec
	Start float64 `json:"start_ms"`
	Queue float64 `json:"queue_ms"`
	Run   float64 `json:"run_ms"`
	Wait  float64 `json:"wait_ms"`
	End   float64 `json:"end_ms"`
	Error string  `json:"error,omitempty"`
}

func encode(w *bufio.Writer, t *observe.Timeline, trace string) error {
	body := timelineJSON{
		Process: t.Process, TraceID: fmt.Sprintf("%x", t.Trace.ID), Namespace: t.Trigger.Namespace,
		Trigger: t.Trigger.String(), Kind: t.Trigger.Kind, Start: t.Start, Duration: ms(t.Duration),
		Outcome: t.Outcome.String(), Error: t.Error, Trace: trace, Spans: make([]spanJSON, len(t.Spans)), Unrecorded: t.Unrecorded,
	}
	for i := range t.Spans {
		s := &t.Spans[i]
		body.Spans[i] = spanJSON{
			Node: s.Node.String(), Kind: s.Node.Kind, Port: s.Port, At: s.Node.Pos.String(),
			Start: ms(s.Start), Queue: ms(s.Queue), Run: ms(s.Run), Wait: ms(s.Wait), End: ms(s.End), Error: s.Error,
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(body)
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
