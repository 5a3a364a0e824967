package ai

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// counts are what a node has done, in all its generations. Any goroutine may call its
// methods.
type counts struct {
	mu sync.Mutex
	tally
}

// do changes what is counted.
func (c *counts) do(change func(*tally)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.tally)
}

type tally struct {
	tokens   [2]int64         // of prompts, of answers
	failures map[string]int64 // by code, of which there are a dozen
	retries  int64
	repairs  int64
	calls    [callOutcomes]int64
	firsts   [len(firstBounds) + 1]uint64
	firstSum float64
}

// firstBounds are in seconds.
var firstBounds = [...]float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// What became of the call of a tool.
const (
	callDone = iota
	callFailed
	callUnknown
	callMalformed
	callOutcomes
)

func (c *counts) used(u usage) {
	c.do(func(t *tally) {
		t.tokens[0] += u.prompt
		t.tokens[1] += u.completion
	})
}

// failed counts a request without a complete answer, unless the process has ended.
func (c *counts) failed(err error) {
	var f *failure
	if !errors.As(err, &f) {
		return
	}
	c.do(func(t *tally) {
		if t.failures == nil {
			t.failures = make(map[string]int64)
		}
		t.failures[f.code]++
	})
}

// first counts how long the first piece of an answer took.
func (c *counts) first(d time.Duration) {
	i := 0
	for i < len(firstBounds) && d.Seconds() > firstBounds[i] {
		i++
	}
	c.do(func(t *tally) {
		t.firsts[i]++
		t.firstSum += d.Seconds()
	})
}

// Measure implements [node.Measured].
func (n *llm) Measure(report func(node.Metric)) {
	var t tally
	n.counts.do(func(now *tally) {
		t = *now
		t.failures = maps.Clone(t.failures)
	})
	counter := func(name, help, label, of string, v int64) {
		m := node.Metric{Name: name, Help: help, Type: node.MetricCounter, Value: float64(v)}
		if label != "" {
			m.Labels = []node.Label{{Name: label, Value: of}}
		}
		report(m)
	}
	counter("llm_tokens_total", "Tokens that were used.", "type", "prompt", t.tokens[0])
	counter("llm_tokens_total", "Tokens that were used.", "type", "completion", t.tokens[1])
	for code, v := range t.failures {
		counter("llm_failures_total", "Requests without a complete answer.", "code", code, v)
	}
	counter("llm_retries_total", "Requests that were sent again.", "", "", t.retries)
	counter("llm_repairs_total", "Answers that were sent back, as they did not fit their schema.", "", "", t.repairs)
	for i, outcome := range []string{"done", "failed", "unknown", "malformed"} {
		counter("llm_tool_calls_total", "Tools that the model called.", "outcome", outcome, t.calls[i])
	}
	report(node.Metric{
		Name: "llm_first_piece_seconds", Help: "Time from a request to the first piece of its answer.", Type: node.MetricHistogram,
		Bounds: firstBounds[:], Counts: t.firsts[:], Sum: t.firstSum,
	})
}
