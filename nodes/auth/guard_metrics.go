package auth

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/meter"
)

// Results are what becomes of requests: they pass, or fail with one of the codes. The last
// is for all other errors.
var results = [...]string{"passed", "credentials", "scope", "forbidden", "replay", "keys", "busy", "error"}

// fail refuses a request, and counts that.
func (g *guard) fail(err error) node.Result {
	at, code := len(results)-1, node.Describe(err).Code
	for i, result := range results[1:] {
		if result == code {
			at = i + 1
		}
	}
	g.counts[at].Add(1)
	return node.Fail(err)
}

// Measure implements [node.Measured].
func (g *guard) Measure(report func(node.Metric)) {
	for i, result := range results {
		report(meter.Counter("auth_requests_total", "Requests, by what became of them.", g.counts[i].Load(), node.Label{Name: "result", Value: result}))
	}
}
