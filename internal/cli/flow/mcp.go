package flow

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/mcptools"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/files"
	"github.com/uniflow-labs/uniflow/nodes/mcp"
	"github.com/uniflow-labs/uniflow/value"
)

const mcpLong = `Mcp serves the tools of a node of kind mcp to one client, on standard input and output,
as programs with a model start servers of tools. It ends when its input has ended and
all requests are answered, for which there is --grace, or by a signal.

No port is opened, and no trigger starts anything. A listener, and what is in front of the
tools, such as auth, are passed over: the client may call all tools. NODE may be left out
if there is one node of kind mcp. The log is on standard error.

With --admin in place of files, the tools are those of an operator of a running program: its
nodes with their numbers, links, processes and queues. With --allow inspect also payloads,
the log and documents; with --allow control also plans and changes of documents, packets
that are sent, and breakpoints. Each change is asked of a person first, by the client
(elicitation), and refused if that cannot be.`

const mcpExample = `  uniflow mcp examples/agent.yaml
  uniflow mcp flow.yaml tools --from-values values.yaml
  uniflow mcp --admin 127.0.0.1:9000 --allow inspect`

func mcpCommand(a commands) *cobra.Command {
	s := settings.New()
	var grace time.Duration
	var allow, code string
	cmd := &cobra.Command{
		Use:     "mcp FILE... [NODE] | mcp --admin ADDRESS",
		Short:   "Serve tools to a model on standard input and output",
		Long:    mcpLong,
		Example: mcpExample,

		ValidArgsFunction: completeFilesAndNode,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	s.AddFlags(cmd, settings.FromSpecs, settings.FromValues, settings.Environment, settings.Namespace, "language", settings.Admin, settings.AdminToken)
	flags.Lookup(settings.FromSpecs).Usage = "read more specs from `FILE`; may be repeated"
	flags.Lookup(settings.Admin).Usage = "offer the running program with this admin `ADDRESS`"
	flags.StringVar(&code, "code", "", "with --admin: the `CODE` at the end of the address that start --console prints")
	flags.StringVar(&allow, "allow", api.View.String(), "with --admin: offer tools of the `SCOPE` view, inspect or control")
	flags.DurationVar(&grace, "grace", 5*time.Second, "when the input has ended, let calls go on for up to `DURATION`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := app.NotNegative(cmd.CommandPath(), "grace", grace); err != nil {
			return err
		}
		if flags.Changed(settings.Admin) {
			if len(args) > 0 {
				return app.Usagef(cmd.CommandPath(), "leave the files out: the program has its own", "--admin takes no files")
			}
			return a.operate(cmd, s, allow, code, grace)
		}
		for _, name := range []string{"allow", "code"} {
			if flags.Changed(name) {
				return app.Usagef(cmd.CommandPath(), "add --admin ADDRESS", "--%s is for a running program", name)
			}
		}
		name, err := a.resolve(cmd, s, args)
		if err != nil {
			return err
		}
		if slices.Contains(s.Specs, app.StdinPath) || slices.Contains(s.Values, app.StdinPath) {
			return app.Usagef(cmd.CommandPath(), "name a file", "standard input is for the client")
		}
		r, err := newReading(cmd.CommandPath(), s, a.App)
		if err != nil {
			return err
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error { return a.mcp(ctx, cmd.CommandPath(), r, s, name, grace) })
	}
	return cmd
}

// operate serves the tools of a running program to one client.
func (a commands) operate(cmd *cobra.Command, s *settings.Settings, allow, code string, grace time.Duration) error {
	address, err := s.ResolveAdmin(a.App, cmd)
	if err != nil {
		return err
	}
	scope, ok := api.ParseScope(allow)
	if !ok {
		return app.Usagef(cmd.CommandPath(), "write --allow inspect", "--allow: want one of %s, got %q", strings.Join(api.ScopeNames(), ", "), allow)
	}
	client := &api.Client{Address: address, Token: s.AdminToken}
	return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
		if code != "" {
			if err := client.Enter(ctx, code); err != nil {
				return s.AdminFailure(err)
			}
		}
		if err := client.Get(ctx, api.StatusPath, new(api.Status)); err != nil { // now, and not as the failure of each tool
			return s.AdminFailure(err)
		}
		server, tools := mcptools.New(ctx, mcptools.Options{Client: client, Version: app.Version(), Scope: scope})
		defer tools.Close()
		err := server.Run(ctx, answering{&sdk.IOTransport{Reader: readCloser(a.Stdin), Writer: writeCloser{a.Stdout}}, grace})
		if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			return &app.ExitError{Code: app.ExitFailure, Err: err}
		}
		return ctx.Err()
	})
}

// mcp serves one client.
func (a commands) mcp(ctx context.Context, command string, r *reading, s *settings.Settings, name []string, grace time.Duration) (err error) {
	engine, src, err := a.untriggered(ctx, r, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Shutdown(context.WithoutCancel(ctx))) }()
	at, err := toolsOf(command, engine.Status().Nodes, name, src.elsewhere(s.Namespace))
	if err != nil {
		return err
	}
	t := answering{&sdk.IOTransport{Reader: readCloser(a.Stdin), Writer: writeCloser{a.Stdout}}, grace}
	if _, _, err := engine.Run(mcp.WithTransport(ctx, t), at, value.Null()); err != nil {
		return &app.ExitError{Code: app.ExitFindings, Err: err}
	}
	return ctx.Err()
}

// toolsOf returns the name of the node whose tools are served. elsewhere is the hint if
// there are no nodes.
func toolsOf(command string, nodes []node.Ref, name []string, elsewhere string) (string, error) {
	var servers []string
	for _, n := range nodes {
		if n.Kind == files.Stdout {
			return "", app.Usagef(command, "send it to a file_sink", "%s: node %q: a stdout would write between the messages to the client", n.Pos, n)
		}
		if n.Kind == mcp.Kind && n.Name != "" {
			servers = append(servers, n.Name)
		}
	}
	hint := "nodes of kind mcp are: " + strings.Join(servers[:min(len(servers), 20)], ", ")
	switch {
	case len(nodes) == 0:
		return "", app.Usagef(command, elsewhere, "there are no nodes")
	case len(servers) == 0:
		return "", app.Usagef(command, "add one with a name: uniflow describe mcp shows how", "there is no node of kind mcp that has a name")
	case len(name) == 0 && len(servers) == 1:
		return servers[0], nil
	case len(name) == 0:
		return "", app.Usagef(command, hint, "which node? There are %d of kind mcp", len(servers))
	case slices.Contains(servers, name[0]):
		return name[0], nil
	}
	if near := app.DidYouMean(name[0], servers, ""); near != "" {
		hint = near
	}
	return "", app.Usagef(command, hint, "there is no node %q of kind mcp", name[0])
}

// readCloser returns a reader whose Close ends a Read that waits, if the reader can.
func readCloser(r io.Reader) io.ReadCloser {
	if c, ok := r.(io.ReadCloser); ok {
		return c
	}
	return io.NopCloser(r)
}

// A writeCloser is a stream that others use, too.
type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }
