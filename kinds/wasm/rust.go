// Package wasm has modules of WebAssembly in several languages, which docs/wasm.md shows. It hands
// out the sources of the one in Rust, for benchmarks.
package wasm

import (
	"embed"
	"io/fs"
)

//go:embed rust/*.rs
var rust embed.FS

// Rust returns the folder rust.
func Rust() fs.FS {
	sub, err := fs.Sub(rust, "rust")
	if err != nil {
		panic(err) // of a name that is not valid
	}
	return sub
}
