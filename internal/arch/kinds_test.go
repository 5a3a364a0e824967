//go:build !race

package arch

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/nodes/std"
)

// kindFree are folders in which no words are looked for.
var kindFree = map[string]string{
	"nodes": "kinds are defined there",
	"lang":  "languages have words of their own, such as if and for",
	"trail": "a library that knows no engine",
	"batch": "a library that knows no engine",
}

// otherWords are names of kinds that mean something else in a package, by package and name.
var otherWords = map[string]string{
	"format/sse retry":                "a field of an event",
	"internal/cli exec":               "a command of other programs",
	"spec plugin":                     "what a document with the name kind.yaml is",
	"internal/api session":            "a word of a path",
	"journal step":                    "a type of record",
	"internal/api limit":              "a parameter of a page",
	"internal/admin limit":            "a parameter of a page",
	"internal/admin retry":            "an action on runs",
	"internal/cli/flow limit":         "a parameter of a page",
	"internal/api http":               "a scheme",
	"internal/api try":                "a word of a path",
	"internal/admin queue":            "a parameter of a page",
	"internal/api queue":              "a parameter of a page",
	"internal/check queue":            "a field",
	"internal/cli/flow queue":         "a flag",
	"internal/cli validate":           "a command of other programs, for a hint",
	"internal/cli try":                "a command of other programs, for a hint",
	"internal/cli/debugger wait":      "a command",
	"internal/cli/flow signal":        "an attribute of the log",
	"internal/cli/loader signal":      "an attribute of the log",
	"internal/cli/dap stdout":         "a category of the protocol",
	"internal/cli/dap step":           "a reason of the protocol",
	"internal/cli/flow chat":          "a starter",
	"internal/cli/flow cache":         "a starter",
	"internal/cli/flow grpc":          "a starter",
	"internal/cli/flow mcp":           "a starter",
	"internal/cli/flow listener":      "a word of a message",
	"internal/cli/flow test":          "a word of a message",
	"internal/cli/flow snippet":       "a word of a document that is made",
	"internal/cli/flow router":        "a flag",
	"internal/cli/flow for":           "a flag",
	"internal/cli/flow block":         "a profile of the runtime",
	"internal/cli/mcptools test":      "the name of a tool",
	"internal/cli/mcptools try":       "the name of a tool",
	"internal/cli/profile http":       "a scheme",
	"internal/cli/reference if":       "a keyword of JSON Schema",
	"internal/cli/reference http":     "the older form, whose kinds had other names",
	"internal/cli/reference listener": "the older form, whose kinds had other names",
	"internal/cli/reference router":   "the older form, whose kinds had other names",
	"internal/cli/settings watch":     "a flag",
	"internal/cli/trail http":         "a scheme",
	"internal/cli/trail log":          "a part of the store",
	"internal/cli/trail merge":        "a phase of an import",
	"internal/compile step":           "a key of the log",
	"internal/ground/spool batch":     "a type of record",
	"internal/run fork":               "an account of memory",
	"node session":                    "a participant in the end of a process",
	"node/envelope auth":              "a field of a request",
	"node/httpclient auth":            "a field",
	"node/httpclient http":            "a scheme",
	"node/httpclient proxy":           "a field",
	"node/jsonschema if":              "a keyword",
	"node/session session":            "what a process has",
	"node/stream batch":               "a field",
	"node/stream decode":              "a field",
	"node/stream encode":              "a field, and the code of an error",
	"node/stream retry":               "a field",
	"observe/otlp http":               "a scheme",
	"spec http":                       "the older form, whose kinds had other names",
	"spec listener":                   "the older form, whose kinds had other names",
	"spec router":                     "the older form, whose kinds had other names",
	"spec snippet":                    "the older form, in which its language had a default",
}

// TestKindsByName checks that the product does not know kinds by name outside of nodes: what
// others must know of a kind is in its Def, see node.Traits and node.Role.
func TestKindsByName(t *testing.T) {
	kinds := make(map[string]bool)
	for _, def := range std.Defs("") {
		kinds[def.Kind] = true
	}
	support := partOf("test")
	found := make(map[string]bool)
	for _, f := range load(t) {
		if part := partOf(f.pkg); f.test || part == support || parts[part].title == "benchmarks and the guard" || under(f.pkg, "internal/arch") {
			continue
		}
		free := false
		for folder := range kindFree {
			free = free || under(f.pkg, folder)
		}
		if free {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if _, ok := n.(*ast.ImportSpec); ok {
				return false
			}
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			word, err := strconv.Unquote(lit.Value)
			if err != nil || !kinds[word] {
				return true
			}
			use := strings.TrimSpace(f.pkg + " " + word)
			found[use] = true
			if otherWords[use] == "" {
				t.Errorf("%s: %q is a kind: ask its Def, as by node.Traits, or say in otherWords what else it means", f.set.Position(lit.Pos()), word)
			}
			return true
		})
	}
	for use := range otherWords {
		if !found[use] {
			t.Errorf("otherWords: %q does not occur", use)
		}
	}
}
