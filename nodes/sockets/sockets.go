// Package sockets has the kinds whose nodes read from and write to sockets: TCP, UDP and those of Unix.
//
// Each kind is one literal, in a file of its name. The package must not know how
// processes are run.
package sockets

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def { return nil }
