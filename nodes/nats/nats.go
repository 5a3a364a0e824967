// Package nats has the kinds whose nodes exchange messages with NATS and JetStream.
//
// Each kind is one literal, in a file of its name. nats_source opens a jetStreamReader,
// whose consumer is in consumer.go, or a coreReader. The other kinds share one connection
// for each settings: conn.go keeps it, requests.go is its requests, client.go is a node's
// use of it. The package must not know how processes are run.
package nats

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	in, out := source().Def(o), sink().Def(o)
	in.Lint, out.Lint = lintTLS, lintTLS
	defs := []*node.Def{in, out, requestDef(o), kvDef(o)}
	for _, def := range defs {
		def.Connects = true
	}
	return defs
}

// lintTLS warns of certificates that are not verified.
func lintTLS(specs []node.WrittenSpec) (list diag.List) {
	for _, s := range specs {
		if skip := s.Config.Field("tls").Field("insecure"); skip != nil && skip.Text.Code != "false" && !skip.Value.IsNull() {
			list.Add(s.Finding(skip.Pos, "tls.insecure", diag.Warningf(diag.CodeInsecure, "the certificate of the server is not verified").
				WithHint("put the certificate of its authority into tls.ca")))
		}
	}
	return list
}
