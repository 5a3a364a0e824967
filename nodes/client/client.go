// Package client holds the node kinds that call services over HTTP: http and sse_source.
//
// http.go is the node that makes calls. http_call.go makes one: http_request.go makes a
// request of a payload, with http_target.go and http_body.go, http_answer.go a payload of
// its answer, http_error.go an error of a failure. sse_source.go reads events. Both have
// their connections of package httpclient.
//
// Invariant: a payload keeps nothing of the connection alive. The package must not know how
// processes are run.
package client

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(o stream.Options) []*node.Def {
	events := sseSource().Def(o)
	events.Lint = field.LintTLS
	return []*node.Def{httpDef(o), events}
}
