// Package files has the kinds whose nodes read and write files, and the standard streams of the program.
//
// Each kind is one literal, in a file of its name. Of file_source, scan.go finds files, tail.go
// reads one, mark.go has positions; original.go and past.go find what a rotated file was. rotate.go
// is for file_sink. The package must not know how processes are run.
package files

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return []*node.Def{
		fileSource().Def(o), fileSink().Def(o), stdinSource().Def(o), stdoutSink().Def(o), watchSource().Def(o),
	}
}
