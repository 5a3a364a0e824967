package flow

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/runs"
)

// program returns the running program that the command line names.
func (o *runsOptions) program(cmd *cobra.Command) (*servedRuns, error) {
	if err := o.Resolve(o.App, cmd); err != nil {
		return nil, err
	}
	const hint = "write --admin 127.0.0.1:9000, as start --admin names it"
	if o.Admin == "" {
		return nil, app.Usagef(cmd.CommandPath(), hint, "%s needs the running program", cmd.Name())
	}
	address, err := o.AdminAddress(cmd, hint)
	if err != nil {
		return nil, err
	}
	return o.served(cmd, address)
}

// change sends a change of runs, and decodes the answer.
func (p *servedRuns) change(ctx context.Context, path string, body, into any) error {
	err := p.client.Send(ctx, http.MethodPost, path, body, into)
	if refused, ok := errors.AsType[*api.StatusError](err); ok {
		switch refused.Status {
		case http.StatusConflict: // the state of a run
			return &app.ExitError{Code: app.ExitFindings, Err: errors.New(refused.Answer.Message), Hint: refused.Answer.Hint}
		case http.StatusNotFound:
			if refused.Answer.Message != "" && refused.Answer.Hint == "" { // of a token
				return &app.ExitError{Code: app.ExitFindings, Err: errors.New(refused.Answer.Message)}
			}
		}
	}
	return p.failure(err)
}

const runsSignalLong = `Signal sends a signal to the runs that wait for EVENT with the key, in the namespace. All of them get it.
If none waits, it is kept for the first that does, for --keep.

With --token it goes to the one wait that has made the token, and needs no EVENT. A token is good once.

It returns when no crash can lose the signal, and prints its id. What is sent again with the same --id
is sent once. The scope control is needed.`

const runsSignalExample = `  uniflow runs signal --admin 127.0.0.1:9000 approved --key order-7 --payload '{"by": "the boss"}'
  uniflow runs signal --admin 127.0.0.1:9000 paid --key order-7 --payload @receipt.json --id receipt-12
  uniflow runs signal --admin 127.0.0.1:9000 --token 5YQ2ZJ3EXAMPLE`

func runsSignalCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "signal [EVENT]", Short: "Send a signal to the runs that wait for it", Long: runsSignalLong, Example: runsSignalExample,
		Args: app.AtMostOneArg("event"), ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := newRunsOptions(a, cmd)
	var s api.Signal
	var payload string
	keep := 24 * time.Hour
	flags := cmd.Flags()
	flags.StringVar(&s.Key, "key", "", "for whose event: the `KEY` of the wait")
	flags.StringVar(&s.Token, "token", "", "the `TOKEN` of a wait, in place of EVENT and --key")
	flags.StringVar(&payload, "payload", "null", "what the runs get, as `JSON`; @FILE reads a file, and \"-\" standard input")
	flags.StringVar(&s.ID, "id", "", "send what has this `ID` once")
	flags.DurationVar(&keep, "keep", keep, "keep it for a run that waits later for `DURATION`")
	o.addServedFlags(cmd, settings.Namespace)
	flags.Lookup(settings.Namespace).Usage = "the `NAMESPACE` of the runs"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		command := cmd.CommandPath()
		for _, name := range []string{"key", "id", settings.Namespace} {
			if err := app.AtMostOneFlag(cmd, "token", name); err != nil {
				return err
			}
		}
		switch {
		case s.Token == "" && len(args) == 0:
			return app.Usagef(command, "write signal EVENT --key KEY, or --token TOKEN", "signal needs an event")
		case s.Token != "" && len(args) > 0:
			return app.Usagef(command, "leave one out", "EVENT and --token do not go together")
		case keep <= 0:
			return app.Usagef(command, "write --keep 24h", "--keep: want more than 0, got %s", keep)
		case s.Token == "" && s.Key == "":
			return app.Usagef(command, "write signal EVENT --key KEY", "signal needs the key of the event")
		case len(args) > 0:
			s.Event, s.Keep = args[0], keep.String()
		}
		v, err := readPayload(command, "--payload", payload, a.Stdin)
		if err != nil {
			return err
		}
		if s.Payload, err = v.AppendJSON(nil); err != nil {
			return err
		}
		p, err := o.program(cmd)
		if err != nil {
			return err
		}
		if s.Token == "" && o.Given(settings.Namespace) {
			s.Namespace = o.Namespace
		}
		var sent api.Signalled
		if err := p.change(cmd.Context(), api.SignalsPath, s, &sent); err != nil {
			return err
		}
		switch {
		case o.asJSON:
			return a.PrintJSON(sent)
		case sent.ID != "":
			return a.Print(sent.ID + "\n")
		}
		return nil
	}
	return cmd
}

// runsActionCommand does something with one run. The program answers with a run, whose id is printed.
func runsActionCommand(a commands, cmd *cobra.Command) *cobra.Command {
	name := cmd.Name()
	cmd.Args, cmd.ValidArgsFunction = app.OneArg("run's id", "runs list prints the ids"), cobra.NoFileCompletions
	o := newRunsOptions(a, cmd)
	o.addServedFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := runs.ParseID(args[0])
		if wrong, ok := errors.AsType[*runs.QueryError](err); ok {
			return app.Usagef(cmd.CommandPath(), wrong.Hint, "%w", wrong)
		}
		p, err := o.program(cmd)
		if err != nil {
			return err
		}
		var run api.Run
		if err := p.change(cmd.Context(), api.RunsPath+"/"+uuid.UUID(id).String()+"/"+name, nil, &run); err != nil {
			return err
		}
		if o.asJSON {
			return a.PrintJSON(run)
		}
		return a.Print(run.ID + "\n")
	}
	return cmd
}

const runsCancelLong = `Cancel ends a run that is queued, that waits, or that was put aside as stuck or diverged. It does not go on any more, and
signals do not find it. Those who wait for its answer get an error with the status 503, and so does a
request with its key.

A run that is running is refused, and one that has ended. Cancel prints the id. The scope control is
needed.`

func runsCancelCommand(a commands) *cobra.Command {
	return runsActionCommand(a, &cobra.Command{
		Use: "cancel ID", Short: "End a durable process that is queued, waits or was put aside", Long: runsCancelLong,
		Example: "  uniflow runs cancel --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71",
	})
}

const runsRetryLong = `Retry lets a run go on that was put aside as stuck or diverged, for example after its documents can be
opened again. What it has recorded is not done again. If it still cannot go on, it stays aside.

An item of a queue that is dead is put into its queue again, and has all of its attempts.

Any other run that has ended is refused: restart it. Retry prints the id. The scope control is needed.`

func runsRetryCommand(a commands) *cobra.Command {
	return runsActionCommand(a, &cobra.Command{
		Use: "retry ID", Short: "Let a durable process go on that is stuck, diverged, or a dead item of a queue", Long: runsRetryLong,
		Example: "  uniflow runs retry --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71",
	})
}

const runsRestartLong = `Restart starts another run with what this one has begun with: from its trigger on, in the workflow that
is served now, and without an idempotency key. What the first one has done is done again. Fields that the
journal does not keep, such as the header Authorization, are missing. Of an item of a queue, another item is
put into the queue.

Restart prints the id of the new run. The scope control is needed.`

func runsRestartCommand(a commands) *cobra.Command {
	return runsActionCommand(a, &cobra.Command{
		Use: "restart ID", Short: "Start a durable process again from the beginning", Long: runsRestartLong,
		Example: "  uniflow runs restart --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71",
	})
}
