package flow

import (
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

// pathOfRequest separates the path of a request, which may be the last argument.
func pathOfRequest(args []string) (rest []string, path string) {
	if len(args) == 0 {
		return nil, ""
	}
	last := args[len(args)-1]
	if !strings.HasPrefix(last, "/") || isFile(last) {
		return args, ""
	}
	return args[:len(args)-1], last
}

// withPath returns a payload with the path of a request.
func withPath(command string, in value.Value, path string) (value.Value, error) {
	given, _ := in.Get(envelope.KeyPath)
	switch {
	case in.IsNull():
		in = value.Map()
	case in.Kind() != value.KindMap:
		return in, app.Usagef(command, `write --input '{"body": …}'`, "with a path, --input is a map with other parts of the request, got %s", in.Kind())
	case !given.IsNull():
		return in, app.Usagef(command, "leave out one of them", "there is a path %s, and --input has one, too", path)
	}
	return in.With(envelope.KeyPath, value.String(path)), nil
}

// asRequest returns the request that a client would send with what a payload has of it. It says
// on standard error what a reader might not expect.
func (a commands) asRequest(command, to string, callee callee, in value.Value) (value.Value, error) {
	if !callee.request && !in.IsNull() && in.Kind() != value.KindMap {
		a.Talk("node %s gets the %s as it is: a request would be a map\n", to, in.Kind())
		return in, nil
	}
	made, err := request.Complete(in)
	if err != nil {
		return in, app.Usagef(command, `a request is a map such as '{"method": "POST", "path": "/orders", "body": {"item": "tea"}}'`, "--input: %w", err)
	}
	if path, _ := in.Get(envelope.KeyPath); strings.Contains(path.String(), "?") {
		alone, _ := made.Get(envelope.KeyPath)
		query, _ := made.Get(envelope.KeyQuery)
		a.Talk("the path %s is path %s and query %s\n", path, alone, query)
	}
	return made, nil
}

// getsRequests reports whether what comes to a node is requests and nothing else: it is a
// trigger that gives them, a router, or a node that only these link to, apart from tests.
func getsRequests(outline uniflow.Outline, namespace, name string) bool {
	at := slices.IndexFunc(outline.Vertices, func(v node.Vertex) bool { return v.Ref.Namespace == namespace && v.Ref.Name == name })
	if at < 0 {
		return false
	}
	v := &outline.Vertices[at]
	if givesRequests(v) {
		return true
	}
	from := slices.DeleteFunc(slices.Clone(v.In), ofTests)
	failure := func(to node.Target) bool { return to.Node.Ref == v.Ref }
	return len(from) > 0 && !slices.ContainsFunc(from, func(from *node.Vertex) bool {
		return !givesRequests(from) || slices.ContainsFunc(from.Err, failure)
	})
}

func givesRequests(v *node.Vertex) bool {
	return v.Gives(node.GivesRequest) || v.Traits.Is.Has(node.Routes)
}

// ofTests reports whether all that comes to a node begins at tests.
func ofTests(v *node.Vertex) bool {
	for up := range node.Reach(node.Up, []*node.Vertex{v}, nil) {
		if len(up.In) == 0 && !(up.Def != nil && up.Def.Role.Has(node.Tests)) {
			return false
		}
	}
	return true
}
