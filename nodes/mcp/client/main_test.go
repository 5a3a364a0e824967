package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

// asServer makes this binary a server on its standard input and output.
const asServer = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(asServer) {
	case "":
		leak.Main(m)
	case "crash":
		fmt.Fprintln(os.Stderr, "cannot start: no key")
		os.Exit(1)
	case "stubborn": // ignores the end of its input, and starts a program of its own
		child := exec.Command("sleep", "600")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			os.Exit(1)
		}
		os.WriteFile(os.Getenv("PID_FILE"), fmt.Appendf(nil, "%d", child.Process.Pid), 0o600)
	}
	if err := server().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

type input struct {
	Text string `json:"text"`
}

type output struct {
	Count int `json:"count"`
}

// server has tools that behave and misbehave.
func server() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "count", Description: "Counts letters."}, func(_ context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, output, error) {
		return nil, output{len(in.Text)}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, input) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("the shelf is empty")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "image"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "one"}, &sdk.ImageContent{Data: []byte("x"), MIMEType: "image/png"}, &sdk.TextContent{Text: "two"},
		}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "slow"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "long"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("x", 1<<20)}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "die"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		os.Exit(3)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "env"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(os.Environ(), "\n")}}}, nil, nil
	})
	proceed := make(chan struct{}, 1)
	sdk.AddTool(s, &sdk.Tool{Name: "proceed", Description: "Lets steps go on."}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		proceed <- struct{}{}
		return &sdk.CallToolResult{}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "steps"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			p := &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: "working"}
			if err := r.Session.NotifyProgress(ctx, p); err != nil {
				return nil, nil, err
			}
			if i == 0 {
				select {
				case <-proceed:
				case <-ctx.Done():
				}
			}
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
	})
	return s
}
