// Package external has the kinds whose nodes run programs of any language: a program that
// reads a line of JSON and writes one, functions in Python, and kinds that folders with programs
// declare.
//
// Read exec.go first, then pool.go, which shares packets out to processes, and process.go for one
// of these. launch.go starts a process, sandbox.go limits it; each.go runs a program a packet.
// python.go and plugin.go build on these.
//
// Invariants. No program starts unless [node.Programs] permit it. A packet that was given to a
// process is answered once: by the process, or by an error when its time is over or the process
// has ended. Nothing that a process writes is kept beyond a bound, and nothing is left of its group of
// processes when it has ended.
//
// The package must not know what the programs do, nor which engine runs it.
package external

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(stream.Options) []*node.Def {
	return []*node.Def{execDef(), pythonDef(), pluginDef()}
}
