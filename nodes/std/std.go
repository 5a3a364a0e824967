// Package std lists the kinds that come with the engine. It has no logic.
package std

import (
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/nodes/events"
	"github.com/uniflow-labs/uniflow/nodes/schedule"
	"github.com/uniflow-labs/uniflow/nodes/web"
)

// Defs returns the kinds, freshly made. Expressions that do not name a language
// are in the given one, "cel" if that is empty. worker is the command line, beginning
// with a name, with which the executable of this process is one that isolated scripts
// run in: see the package lang/javascript. Without it, isolate: true is an error.
func Defs(language string, worker ...string) []*node.Def {
	if language == "" {
		language = "cel"
	}
	languages := builtin.Languages(worker...)
	defs := core.Defs(core.Options{Languages: languages, Language: language})
	defs = append(defs, events.Defs(events.Options{Languages: languages, Language: language})...)
	defs = append(defs, data.Defs()...)
	defs = append(defs, schedule.Defs()...)
	return append(defs, web.Defs()...)
}
