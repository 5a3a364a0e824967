package node

import "github.com/uniflow-labs/uniflow/schema"

// Recall says how a node takes part in resuming a process after a crash. Nothing is
// recorded yet; every kind declares it nevertheless, so that it need not change.
type Recall uint8

// What a node may declare.
const (
	// Effects is for nodes that change something outside of the process: a result is
	// recorded, and what has a record is never done again.
	Effects Recall = iota

	// Reads is for nodes whose result may differ the next time, but that change
	// nothing: a result is recorded, and the node may run again without one.
	Reads

	// Pure is for nodes whose result depends on the packet alone: they run again.
	Pure

	// Holds is for nodes that wait for a time or an event: the rest is waited for.
	Holds
)

// Always is a [Def.Recall] that does not depend on the config.
func Always(r Recall) func(schema.Config) Recall {
	return func(schema.Config) Recall { return r }
}
