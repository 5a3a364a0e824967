// Package grpc has the kinds whose nodes serve and call gRPC.
package grpc

import (
	_ "connectrpc.com/connect"
	_ "github.com/bufbuild/protocompile"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return nil
}
