// Package wasm has the kinds whose nodes run functions of WebAssembly.
package wasm

import (
	_ "github.com/tetratelabs/wazero"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return nil
}
