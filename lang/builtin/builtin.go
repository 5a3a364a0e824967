// Package builtin lists the languages that come with the engine. It has no logic
// of its own.
//
// The package must not know nodes, processes or how documents are parsed.
package builtin

import (
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/cel"
	"github.com/uniflow-labs/uniflow/lang/constant"
	"github.com/uniflow-labs/uniflow/lang/javascript"
)

// Languages returns a new set of the languages below. The programs of one set
// share runtimes, so a process needs only one set. For worker see [javascript.New].
func Languages(worker ...string) *lang.Set {
	js := javascript.New(worker...)
	return lang.NewSet(map[string]lang.Language{
		"text":       constant.Text{},
		"json":       constant.JSON{},
		"yaml":       constant.YAML{},
		"cel":        cel.New(),
		"javascript": js,
		"typescript": js.TypeScript(),
	})
}
