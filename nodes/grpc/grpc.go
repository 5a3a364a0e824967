// Package grpc has the kinds whose nodes serve and call gRPC: grpc and grpc_call. Both speak
// gRPC, gRPC-Web and the Connect protocol, and need no generated code: the types come from .proto
// files, descriptors, or by reflection.
//
// schema.go reads the fields about types; package message converts. call.go is the node that
// calls, with exchange.go for one call, answers.go for a stream of answers, and ask.go for
// reflection. server.go is the node that serves; its endpoint (endpoint.go) outlives generations,
// serve.go answers one call, reply.go reads what a process answers, and known.go has the services
// that each server has. metadata.go and codec.go are for both. status.go is the one table of codes, in both directions.
//
// The package must not know the listener that a request comes from, or how processes are run.
package grpc

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	call := callDef(o)
	call.Lint = field.LintTLS
	return []*node.Def{call, serverDef(o)}
}
