package field

import (
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// methods are the methods that documents use, and what may be taken for one of them.
var (
	methods      = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	otherMethods = []string{"*", "CONNECT", "TRACE", "COPY", "LINK", "LOCK", "MOVE", "PURGE", "QUERY", "REPORT", "SEARCH", "UNLINK", "UNLOCK"}
)

// WarnMethod warns of a method of HTTP, in the field of a config, that is probably misspelled.
// Case does not matter. Other methods than the usual ones may be meant.
func WarnMethod(init *node.Init, c schema.Config, field, method string) {
	upper := strings.ToUpper(method)
	if slices.Contains(methods, upper) || slices.Contains(otherMethods, upper) {
		return
	}
	if near, ok := spell.Nearest(upper, methods); ok {
		init.AddWarning(c.Errorf(field, diag.CodeUnknownMethod, "%q is not a method that clients usually send", method).Instead(method, near))
	}
}
