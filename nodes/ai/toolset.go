package ai

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/jsonschema"
	"github.com/uniflow-labs/uniflow/nodes/mcp/client"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// maxTools is how many tools a model may be shown. Most servers take as many.
const maxTools = 128

// A toolset is the tools that a run may call. It is immutable.
type toolset struct {
	tools []tool
	list  value.Value // as requests have it; null without tools
	bytes int         // of list
}

func (s *toolset) find(name string) *tool {
	for i := range s.tools {
		if s.tools[i].name == name {
			return &s.tools[i]
		}
	}
	return nil
}

// seal makes the list of requests.
func (s *toolset) seal() error {
	if len(s.tools) == 0 {
		return nil
	}
	list := make([]value.Value, len(s.tools))
	for i, t := range s.tools {
		list[i] = object("type", "function", "function", object("name", t.name, "description", t.description, "parameters", t.parameters))
	}
	s.list = value.List(list...)
	data, err := s.list.AppendJSON(nil)
	s.bytes = len(data)
	return err
}

// A server is one of tools_from.
type server struct {
	settings *client.Settings
	only     []string       // of its tools; nil for all
	client   *client.Client // from Open on
}

func (n *llm) setServers(init *node.Init, c schema.Config) error {
	var errs []error
	for _, from := range c.List("tools_from") {
		settings, err := client.New(init, from)
		errs = append(errs, err)
		n.servers = append(n.servers, server{settings: settings, only: from.Strings("only")})
	}
	return errors.Join(errs...)
}

// A toolCache has the last toolset that was made with the tools of servers.
type toolCache struct {
	sync.Mutex
	lists [][]client.Tool // what it was made of
	set   *toolset
}

// gather returns the tools of a run: the tools of the node and of its servers. It waits for
// the servers.
func (n *llm) gather(ctx context.Context) (*toolset, error) {
	lists, err := n.lists(ctx)
	if err != nil {
		return nil, err
	}
	n.toolCache.Lock()
	defer n.toolCache.Unlock()
	if n.toolCache.set != nil && slices.EqualFunc(n.toolCache.lists, lists, sameList) {
		return n.toolCache.set, nil
	}
	set, err := n.setOf(lists)
	if err != nil {
		return nil, err
	}
	n.toolCache.lists, n.toolCache.set = lists, set
	return set, nil
}

// lists asks each server for its tools.
func (n *llm) lists(ctx context.Context) (lists [][]client.Tool, err error) {
	lists = make([][]client.Tool, len(n.servers))
	for i := range n.servers {
		if lists[i], err = n.servers[i].client.Tools(ctx); err != nil {
			return nil, &node.Error{Err: fmt.Errorf("tools_from[%d]: %w", i, err), Code: "tools", Status: 502}
		}
	}
	return lists, nil
}

func (n *llm) setOf(lists [][]client.Tool) (*toolset, error) {
	set := &toolset{tools: slices.Clone(n.tools.tools)}
	for i, list := range lists {
		n.addTools(set, &n.servers[i], list)
	}
	return set, set.seal()
}

// sameList reports whether a client has given the same list again.
func sameList(a, b []client.Tool) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// addTools adds the tools of a server. What the model cannot be shown is logged, and left
// out: it is the server's mistake, and the other tools work.
func (n *llm) addTools(set *toolset, s *server, list []client.Tool) {
	for _, t := range list {
		name := callable(t.Name)
		parameters, input, err := compileInput(t.Input, jsonschema.Options{Foreign: true})
		switch {
		case len(s.only) > 0 && !slices.Contains(s.only, t.Name):
		case len(set.tools) == maxTools:
			n.log.Warn("a tool of a server is left out", "tool", node.Clip(t.Name, maxQuote), "reason", fmt.Sprintf("a model is shown %d tools at most", maxTools))
		case set.find(name) != nil:
			n.log.Warn("a tool of a server is left out", "tool", node.Clip(t.Name, maxQuote), "reason", "there is one of this name")
		case err != nil:
			n.log.Warn("a tool of a server is left out", "tool", node.Clip(t.Name, maxQuote), "reason", "its schema does not compile: "+node.Clip(err.Error(), maxQuote))
		default:
			set.tools = append(set.tools, tool{name: name, description: t.Description, parameters: parameters, input: input, server: s, remote: t.Name})
		}
	}
}

// callable makes a name that models can call of one that servers may have.
func callable(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && toolName().MatchString(string(r)) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 64)]
}

// callServer calls a tool of a server, in a durable process once.
func (t *tool) callServer(args value.Value) node.Result {
	return node.Step(func(ctx context.Context) (value.Value, error) {
		result, err := t.server.client.Call(ctx, t.remote, args, nil)
		var failed *client.ToolError
		switch {
		case errors.As(err, &failed):
			return value.Null(), errors.New(failed.Text)
		case err != nil:
			return value.Null(), err
		case result.Text == "" && !result.Data.IsNull():
			return result.Data, nil
		case result.Text == "" && result.Content.Len() > 0:
			return value.String("done; the result is not text, and cannot be shown"), nil
		}
		return value.String(result.Text), nil
	}, func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) })
}
