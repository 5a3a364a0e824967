// Package std lists the kinds that come with the engine. It has no logic.
package std

import (
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/nodes/events"
	"github.com/uniflow-labs/uniflow/nodes/web"
)

// Defs returns the kinds, freshly made. Expressions that do not name a language
// are in the given one, "cel" if that is empty.
func Defs(language string) []*node.Def {
	if language == "" {
		language = "cel"
	}
	languages := builtin.Languages()
	defs := core.Defs(core.Options{Languages: languages, Language: language})
	defs = append(defs, events.Defs(events.Options{Languages: languages, Language: language})...)
	return append(defs, web.Defs()...)
}
