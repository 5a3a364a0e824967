// Package events holds the kinds that send events to other systems, store them, and
// query them.
//
// [Defs] lists them; each kind has a file of its own. shared_processor.go and
// shared_store.go have what outlives a generation of nodes. trail_events.go makes events of
// payloads, and query_tree.go makes queries
// what package query reads. The package must not know how batches are sent, which is
// package batch's, how events are stored, which is package trail's, nor how
// processes are run.
package events

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return []*node.Def{batchDef(o), stored(trailAppendDef(o)), stored(trailQueryDef(o)), stored(trailSinkDef(o))}
}

// stored lets others know of the store that nodes of a kind have.
func stored(def *node.Def) *node.Def {
	traits := def.Traits
	def.Traits = func(c schema.Config) (t node.Traits) {
		if traits != nil {
			t = traits(c)
		}
		t.Events = c.String("db")
		return t
	}
	return def
}
