// Package top is the command uniflow top: what the nodes of a running program do, second by second, in a
// terminal.
//
// The package must not know how the numbers are made: the program sends them.
package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
)

const topLong = `Top shows what the nodes of a running program do: packets and errors in a second, the time that half
and 99 of 100 of the packets took at most, the share of one processor that their code takes, and the
rates of the last minute. ADDRESS is that of the admin server, see start --admin; without it, what
UNIFLOW_ADMIN or the config file says.

In a terminal, the keys < and > choose the column to sort by, / filters by name and kind, ? shows all
keys. Through a pipe it prints a table each second, or with --json a line.`

const topExample = `  uniflow top 127.0.0.1:9000
  uniflow top 127.0.0.1:9000 --once
  uniflow top 127.0.0.1:9000 --json | jq .in_flight`

// width is that of a table that is not in a terminal.
const width = 100

type options struct {
	*settings.Settings
	once, asJSON bool
}

// Command is the command top.
func Command(a *app.App) *cobra.Command {
	o := &options{Settings: settings.New()}
	cmd := &cobra.Command{
		Use:     "top [ADDRESS]",
		Short:   "Show what the nodes of a running program do",
		Long:    topLong,
		Example: topExample,
		Args:    app.AtMostOneArg("address"),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&o.once, "once", false, "print the numbers of the next second, and end")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON, a line each second")
	o.AddAdminFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		address, err := o.ResolveAdmin(a, cmd, args...)
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), a, &api.Client{Address: address, Token: o.AdminToken})
	}
	return cmd
}

// errEnough ends a stream of which enough has been read.
var errEnough = errors.New("enough")

func (o *options) run(ctx context.Context, a *app.App, client *api.Client) error {
	m := &model{sort: byRate}
	if err := client.Get(ctx, api.StatusPath, &m.status); err != nil {
		return o.failure(err)
	}
	out, terminal := a.Stdout.(*os.File)
	if in, ok := a.Stdin.(*os.File); ok && terminal && !o.once && !o.asJSON && term.IsTerminal(int(out.Fd())) && term.IsTerminal(int(in.Fd())) {
		return o.failure(watch(ctx, client, m, in, out))
	}
	err := client.Events(ctx, func(e api.Event) error {
		rates, err := m.event(e)
		if err != nil || !rates {
			return err
		}
		if err := o.print(a, m); err != nil {
			return err
		}
		if o.once {
			return errEnough
		}
		return nil
	})
	return o.failure(ended(err))
}

// errGone says that the program has ended.
var errGone = errors.New("the program has ended")

// ended says why a stream has ended.
func ended(err error) error {
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return errGone
	}
	return err
}

func (o *options) print(a *app.App, m *model) error {
	if !o.asJSON {
		return a.Print(strings.Join(m.lines(width, 0), "\n") + "\n\n")
	}
	all := m.now
	all.Of, all.Rows = m.hello.Nodes, nil
	for _, r := range m.rows {
		all.Rows = append(all.Rows, r.NodeMetrics)
	}
	line, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return a.Print(string(line) + "\n")
}

// failure explains an error of a program that was asked.
func (o *options) failure(err error) error {
	switch {
	case err == nil, errors.Is(err, errEnough), errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, errGone):
		return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("%s: %w", o.Admin, err)}
	}
	return o.AdminFailure(err)
}
