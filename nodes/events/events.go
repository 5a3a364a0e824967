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
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return []*node.Def{batchDef(o), trailAppendDef(o), trailQueryDef(o), trailSinkDef(o)}
}
