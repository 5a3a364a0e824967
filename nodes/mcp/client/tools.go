package client

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	maxTools = 1000        // of a server
	toolsFor = time.Minute // how long a list of tools is used
)

// A Tool is one that the server has.
type Tool struct {
	Name, Description string
	Input             value.Value // a JSON Schema of an object
}

// Tools returns the tools of the server, which are asked for once a minute at most, by one
// caller while the others wait. The caller must not change the list.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	if tools, ok := c.known(); ok {
		return tools, nil
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()
	select {
	case c.list <- struct{}{}:
		defer func() { <-c.list }()
	case <-ctx.Done():
		return nil, c.describe(ctx, context.Cause(ctx))
	}
	if tools, ok := c.known(); ok {
		return tools, nil
	}
	var found []*sdk.Tool
	err := c.use(ctx, func(s *session) (err error) {
		found, err = listTools(ctx, s)
		return err
	})
	var tools []Tool
	if err == nil {
		tools, err = readTools(found)
	}
	if err != nil {
		return nil, c.describe(ctx, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.tools, c.mu.until = tools, time.Now().Add(toolsFor)
	return tools, nil
}

// known returns the tools, if it is not time to ask for them again.
func (c *Client) known() (tools []Tool, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.tools, time.Now().Before(c.mu.until)
}

// listTools returns at most one tool more than a server may have.
func listTools(ctx context.Context, s *session) (tools []*sdk.Tool, err error) {
	for t, err := range s.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if tools = append(tools, t); len(tools) > maxTools {
			break
		}
	}
	return tools, nil
}

func readTools(found []*sdk.Tool) ([]Tool, error) {
	if len(found) > maxTools {
		return nil, fmt.Errorf("the server has more than %d tools", maxTools)
	}
	tools := make([]Tool, len(found))
	for i, t := range found {
		input, err := jsonOf(t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", node.Clip(t.Name, maxQuote), err)
		}
		tools[i] = Tool{t.Name, t.Description, input}
	}
	return tools, nil
}
