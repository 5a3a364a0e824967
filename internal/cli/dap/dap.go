// Package dap is the command uniflow dap: the debugger of a running program for editors, by the Debug Adapter
// Protocol.
//
// Read session.go: what the editor asks for, and what the program is asked for that. A process that is held
// is a thread of the protocol; thread 1 stands for the processes that are not.
//
// The package must not know how processes are held: the program does it.
package dap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

const long = `Dap is a debug adapter for editors. An editor starts it and speaks the Debug Adapter Protocol with it, over
the standard input and output, or over TCP with --listen. It starts a program as uniflow start does, or
attaches to one that runs:

  {"request": "launch", "specs": ["flow.yaml"], "args": ["--environment", "development"]}
  {"request": "attach", "address": "127.0.0.1:9000", "token": "TOKEN"}

The address is that of the admin server, see start --admin. In place of the token, "code" takes the code of
the address that start --console prints. Breakpoints are at the lines of nodes in the documents; function
breakpoints are names of nodes, such as price, or price:out[1], price:error, price:answer.`

// Command is the command dap.
func Command(a *app.App) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "dap", Short: "Debug running programs in an editor", Long: long,
		Example: "  uniflow dap\n  uniflow dap --listen 127.0.0.1:4711",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&listen, "listen", "", "serve one editor after the other at `ADDRESS`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			if listen == "" {
				return serve(ctx, a.Program, a.Stdin, a.Stdout)
			}
			return listenAt(ctx, a, listen)
		})
	}
	return cmd
}

func listenAt(ctx context.Context, a *app.App, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return &app.ExitError{Code: app.ExitFailure, Err: err, Hint: "write --listen 127.0.0.1:4711"}
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	a.Talk("listening at %s\n", l.Addr())
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return &app.ExitError{Code: app.ExitFailure, Err: err}
		}
		hang := context.AfterFunc(ctx, func() { _ = conn.Close() })
		err = serve(ctx, a.Program, conn, conn)
		hang()
		if err = errors.Join(err, conn.Close()); err != nil && ctx.Err() == nil {
			a.Talk("%s: %v\n", conn.RemoteAddr(), err)
		}
	}
}

// serve serves one editor until it disconnects or leaves.
func serve(ctx context.Context, executable string, in io.Reader, out io.Writer) error {
	s := newSession(ctx, executable, out)
	defer s.close()
	ended := make(chan error, 1)
	var reader sync.WaitGroup // not waited for when ctx ends: the read of a pipe ends with this program
	reader.Go(func() { ended <- s.read(in) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("debug adapter: %w", err)}
		}
		return nil
	}
}
