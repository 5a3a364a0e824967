// Package mcp holds the kinds that speak the Model Context Protocol: mcp, a server whose
// tools are nodes, and mcp_call, which calls a tool of another server. The package must
// not know models.
package mcp

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(o stream.Options) []*node.Def { return []*node.Def{serverDef(), callDef(o)} }
