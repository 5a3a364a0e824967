// Package std lists the kinds that come with the engine. It has no logic.
package std

import (
	"slices"

	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/ai"
	"github.com/uniflow-labs/uniflow/nodes/amqp"
	"github.com/uniflow-labs/uniflow/nodes/api"
	"github.com/uniflow-labs/uniflow/nodes/auth"
	"github.com/uniflow-labs/uniflow/nodes/chat"
	"github.com/uniflow-labs/uniflow/nodes/client"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/nodes/dialogue"
	"github.com/uniflow-labs/uniflow/nodes/events"
	"github.com/uniflow-labs/uniflow/nodes/external"
	"github.com/uniflow-labs/uniflow/nodes/files"
	"github.com/uniflow-labs/uniflow/nodes/flow"
	"github.com/uniflow-labs/uniflow/nodes/grpc"
	"github.com/uniflow-labs/uniflow/nodes/kafka"
	"github.com/uniflow-labs/uniflow/nodes/mail"
	"github.com/uniflow-labs/uniflow/nodes/mcp"
	"github.com/uniflow-labs/uniflow/nodes/mqtt"
	"github.com/uniflow-labs/uniflow/nodes/nats"
	"github.com/uniflow-labs/uniflow/nodes/postgres"
	"github.com/uniflow-labs/uniflow/nodes/redis"
	"github.com/uniflow-labs/uniflow/nodes/s3"
	"github.com/uniflow-labs/uniflow/nodes/schedule"
	"github.com/uniflow-labs/uniflow/nodes/serve"
	"github.com/uniflow-labs/uniflow/nodes/sockets"
	"github.com/uniflow-labs/uniflow/nodes/streams"
	"github.com/uniflow-labs/uniflow/nodes/wasm"
	"github.com/uniflow-labs/uniflow/nodes/web"
)

// Defs returns the kinds, freshly made. Expressions that do not name a language
// are in the given one, "cel" if that is empty. worker is the command line, beginning
// with a name, with which the executable of this process is one that isolated scripts
// run in: see the package lang/javascript. Without it, isolate: true is an error.
func Defs(language string, worker ...string) []*node.Def {
	return DefsAnd(nil, language, worker...)
}

// DefsAnd returns the kinds as [Defs] does, and those of other packages, which share
// their languages.
func DefsAnd(others []func(stream.Options) []*node.Def, language string, worker ...string) []*node.Def {
	if language == "" {
		language = "cel"
	}
	o := stream.Options{Languages: builtin.Languages(worker...), Language: language}
	defs := core.Defs(core.Options{Languages: o.Languages, Language: o.Language})
	defs = append(defs, schedule.Defs()...)
	own := []func(stream.Options) []*node.Def{
		ai.Defs, api.Defs, auth.Defs, chat.Defs, client.Defs, data.Defs, dialogue.Defs, events.Defs, files.Defs, flow.Defs, kafka.Defs,
		amqp.Defs, external.Defs, grpc.Defs, mail.Defs, mcp.Defs, mqtt.Defs, nats.Defs,
		postgres.Defs, redis.Defs, s3.Defs, serve.Defs, sockets.Defs, streams.Defs, wasm.Defs, web.Defs,
	}
	for _, of := range slices.Concat(own, others) {
		defs = append(defs, of(o)...)
	}
	return defs
}
