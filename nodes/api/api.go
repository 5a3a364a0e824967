// Package api holds the kind validate, which checks payloads against a JSON Schema.
//
// Read validate.go first: the node. describe.go says what a node adds to the description of
// an API. Schemas come from package jsonschema.
//
// The package must not know listeners.
package api

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(stream.Options) []*node.Def { return []*node.Def{validateDef()} }
