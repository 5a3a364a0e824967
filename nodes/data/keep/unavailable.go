package keep

import (
	"log/slog"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// Unavailable is a field of a store: what happens while it cannot be reached. pass says what a kind does with a
// payload then.
func Unavailable(pass string) *schema.Field {
	return schema.Enum("unavailable", "refuse", "pass").Default("refuse").Doc("What happens while the store cannot be reached: `refuse` fails with status 503 or 504, `pass` " + pass + ".")
}

// IsOutage reports whether an error of a store says that it cannot be reached, whatever it is asked for.
func IsOutage(err error) bool {
	e := node.Describe(err)
	return e.Outage || e.Code == "timeout"
}

// Ready returns why a store, a limiter or a hub cannot be reached, if that is known; nil otherwise.
func Ready(s any) error {
	if r, ok := s.(node.Readier); ok {
		return r.Ready()
	}
	return nil
}

// Outages decide what errors of a store mean for a node. Any goroutine may call the methods. The log is told when an
// outage begins and ends, and not of each payload. Make them with NewOutages.
type Outages struct {
	pass bool
	log  *slog.Logger
	name node.Ref

	mu struct {
		sync.Mutex
		away   bool
		passed uint64
	}
}

// NewOutages reads the field that Unavailable returns.
func NewOutages(init *node.Init, at schema.Config) *Outages {
	return &Outages{pass: at.String("unavailable") == "pass", log: init.Log, name: init.Node}
}

// Pass reports whether a payload goes on although the store has returned an error, or nil.
func (o *Outages) Pass(err error) (pass bool) {
	if !o.pass || err != nil && !IsOutage(err) {
		return false
	}
	o.mu.Lock()
	begins, ends := err != nil && !o.mu.away, err == nil && o.mu.away
	o.mu.away = err != nil
	if err != nil {
		o.mu.passed++
	}
	o.mu.Unlock()
	switch {
	case begins:
		o.log.Warn("the store cannot be reached, and payloads pass without it", "node", o.name, "error", err)
	case ends:
		o.log.Info("the store can be reached again", "node", o.name)
	}
	return err != nil
}

// Ready returns why a node is not ready, by its store.
func (o *Outages) Ready(s any) error {
	if o.pass {
		return nil
	}
	return Ready(s)
}

// Measure reports how many payloads have gone on without the store, for a kind.
func (o *Outages) Measure(kind string, report func(node.Metric)) {
	if !o.pass {
		return
	}
	o.mu.Lock()
	passed := o.mu.passed
	o.mu.Unlock()
	report(node.Metric{Name: kind + "_unavailable_total", Help: "Payloads that went on without the store, which could not be reached.", Type: node.MetricCounter, Value: float64(passed)})
}
