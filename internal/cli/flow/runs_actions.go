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
		case http.StatusBadRequest:
			if refused.Answer.Message != "" {
				return &app.ExitError{Code: app.ExitUsage, Err: errors.New(refused.Answer.Message), Hint: refused.Answer.Hint}
			}
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

// runID checks an id that the command line has.
func runID(cmd *cobra.Command, text string) (string, error) {
	id, err := runs.ParseID(text)
	if wrong, ok := errors.AsType[*runs.QueryError](err); ok {
		return "", app.Usagef(cmd.CommandPath(), wrong.Hint, "%w", wrong)
	}
	return uuid.UUID(id).String(), err
}

// act does what the command is called with one run. The program answers with a run, whose id is printed.
func (o *runsOptions) act(cmd *cobra.Command, text string, body any) error {
	id, err := runID(cmd, text)
	if err != nil {
		return err
	}
	p, err := o.program(cmd)
	if err != nil {
		return err
	}
	var run api.Run
	if err := p.change(cmd.Context(), api.RunsPath+"/"+id+"/"+cmd.Name(), body, &run); err != nil {
		return err
	}
	if o.asJSON {
		return o.PrintJSON(run)
	}
	if cmd.Name() == "pause" && run.State == "running" {
		o.Talk("what the run has begun has not ended: it is paused once it has, unless it ends with that\n")
	}
	return o.Print(run.ID + "\n")
}

const runsPauseLong = `Pause puts a run aside that is queued, waits or runs, until it is resumed, also over a restart of the program.
What a run has begun ends and is recorded, and nothing else begins. If that takes longer than ten seconds,
pause says so, and the run is paused once it has ended. Those who wait for the answer get an error with the
status 503, and a request with its key one with 409.

A signal that comes for a paused run is kept for it, and if its time comes, the run goes on with that when it
is resumed. An item of a queue makes room for the next.

A run with the level accept is refused while it runs: it could only begin again. Pause prints the id. The scope
control is needed.

` + runsManyLong

func runsPauseCommand(a commands) *cobra.Command {
	return runsManyCommand(a, "paused", &cobra.Command{
		Use: "pause [ID...]", Short: "Put durable processes aside until they are resumed", Long: runsPauseLong,
		Example: "  uniflow runs pause --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71\n  uniflow runs pause --admin 127.0.0.1:9000 --state queued,running,waiting --trigger orders",
	}, nil)
}

const runsResumeLong = `Resume lets a run go on that is paused, where it was and in the workflow that it began with, with the signals
that have come for it meanwhile. An item of a queue has its place there again, and goes on when it is its
turn. Resume prints the id. The scope control is needed.

` + runsManyLong

func runsResumeCommand(a commands) *cobra.Command {
	return runsManyCommand(a, "resumed", &cobra.Command{
		Use: "resume [ID...]", Short: "Let durable processes go on that are paused", Long: runsResumeLong,
		Example: "  uniflow runs resume --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71\n  uniflow runs resume --admin 127.0.0.1:9000 --state paused --rate 10/s",
	}, nil)
}

const runsCancelLong = `Cancel ends a run that is queued, that waits, or that was put aside as paused, stuck or diverged. It does not go on any more, and
signals do not find it. Those who wait for its answer get an error with the status 503, and so does a
request with its key.

A run that is running is refused, and one that has ended. Cancel prints the id. The scope control is
needed.

` + runsManyLong

func runsCancelCommand(a commands) *cobra.Command {
	return runsManyCommand(a, "cancelled", &cobra.Command{
		Use: "cancel [ID...]", Short: "End durable processes that are queued, wait or were put aside", Long: runsCancelLong,
		Example: "  uniflow runs cancel --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71\n  uniflow runs cancel --admin 127.0.0.1:9000 --state waiting --trigger orders --rate 50/s",
	}, nil)
}

const runsRetryLong = `Retry lets a run go on that has failed or is dead: what has gone well is not done again, and what has
failed is, with the same idempotency key. The same id, key and clients have the new answer. A run that was
put aside as stuck or diverged goes on with all that it has recorded, for example after its documents can
be opened again. If it still cannot go on, it stays aside.

An item of a queue that is dead is put into its queue again, and has all of its attempts.

With --latest the run goes on in the workflow that is served now, also one that waits or is paused. What it has recorded
counts where it comes to the same node in the same way, with the same input; all else is done there, maybe
once more.

A run that is ok or cancelled is refused: restart it. Retry prints the id. The scope control is needed.

` + runsManyLong

func runsRetryCommand(a commands) *cobra.Command {
	retry := new(api.RunRetry)
	cmd := runsManyCommand(a, "retried", &cobra.Command{
		Use: "retry [ID...]", Short: "Let durable processes go on that have failed or were put aside", Long: runsRetryLong,
		Example: "  uniflow runs retry --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71\n  uniflow runs retry --admin 127.0.0.1:9000 --state failed --since 2h --rate 50/s\n  uniflow runs retry --admin 127.0.0.1:9000 --state stuck --latest",
	}, retry)
	cmd.Flags().BoolVar(&retry.Latest, "latest", false, "go on in the workflow that is served now")
	return cmd
}

const runsRestartLong = `Restart starts another run with what this one has begun with: from its trigger on, in the workflow that
is served now, and without an idempotency key. What the first one has done is done again. Fields that the
journal does not keep, such as the header Authorization, are missing. Of an item of a queue, another item is
put into the queue.

With --input the new run begins with the JSON in a file instead. runs show --payloads prints the input of
the first; what is [redacted] in it stays as it was.

With --from what the first run has recorded counts, except of the node and of all that its answers lead to: that is
done again. What the node gets follows from what was recorded before it, so --input does not go with --from. Items
of queues begin from their beginning only.

Restart prints the id of the new run. The scope control is needed.`

func runsRestartCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "restart ID", Short: "Start a durable process again from the beginning, or from a node", Long: runsRestartLong,
		Example: "  uniflow runs restart --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71\n  uniflow runs restart --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71 --input order.json\n  uniflow runs restart --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71 --from ship",
		Args:    app.OneArg("run's id", "runs list prints the ids"), ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := newRunsOptions(a, cmd)
	input, from := "", ""
	cmd.Flags().StringVar(&from, "from", "", "do again `NODE` and what its answers lead to, and nothing else")
	cmd.Flags().StringVar(&input, "input", "", "begin with the JSON in `FILE`; \"-\" reads standard input")
	o.addServedFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var body any
		if cmd.Flags().Changed("from") {
			if cmd.Flags().Changed("input") {
				return app.Usagef(cmd.CommandPath(), "what the node gets follows from what was recorded before it", "--from does not go with --input")
			}
			body = api.RunRestart{From: from}
		}
		if cmd.Flags().Changed("input") {
			if input != app.StdinPath {
				input = "@" + input
			}
			v, err := readPayload(cmd.CommandPath(), "--input", input, a.Stdin)
			if err != nil {
				return err
			}
			text, err := v.AppendJSON(nil)
			if err != nil {
				return err
			}
			body = api.RunRestart{Input: text}
		}
		return o.act(cmd, args[0], body)
	}
	return cmd
}
