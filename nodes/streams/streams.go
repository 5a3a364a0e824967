// Package streams has the kinds that stand between the processes of a stream: they
// collect and distribute payloads, and pass parts of answers on.
//
// Each kind is one literal, in a file of its name. buffer.go has what collect, debounce, join
// and window share, topics.go what publish and subscribe do. The package must not know how
// processes are run.
package streams

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return []*node.Def{
		collectDef(o),
		debounceDef(o),
		decodeDef(),
		dedupeDef(o),
		emitDef(o),
		encodeDef(),
		generateDef(o),
		joinDef(o),
		logDef(o),
		publishDef(o),
		subscribeDef(o),
		windowDef(o),
	}
}
