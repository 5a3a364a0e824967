package flow

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

const queuesLong = `Queues are those of nodes of kind queue, whose items are durable processes. runs list --queue NAME lists the
items.

With --admin ADDRESS the commands ask a running program. With --journal sqlite:FILE, list reads the file of
a journal that no program has; the others need the running program.`

func queuesCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "queues", Short: "Show the queues of durable processes, pause them, and put items into them", Long: queuesLong,
		Example: "  uniflow queues list --admin 127.0.0.1:9000\n  uniflow queues pause --admin 127.0.0.1:9000 mail\n  uniflow queues put --admin 127.0.0.1:9000 mail item.json",
		Args:    cobra.ArbitraryArgs, RunE: app.RunGroup,
	}
	cmd.AddCommand(queuesListCommand(a), queuesPauseCommand(a), queuesResumeCommand(a), queuesPutCommand(a))
	return cmd
}

func (p *servedRuns) queues(ctx context.Context) (all []api.Queue, err error) {
	err = p.client.Get(ctx, api.QueuesPath, &all)
	return slices.DeleteFunc(all, func(q api.Queue) bool { return q.Items == nil }), p.failure(err)
}

func (f *storedRuns) queues(ctx context.Context) ([]api.Queue, error) {
	all, err := f.view.Queues(ctx)
	return all, f.failure(err)
}

const queuesListLong = `List prints a line for each queue: how many of its items have not begun, how many have begun and not
ended, how long the first of those that have not begun waits for its turn, and whether the queue is paused.

A file knows only the queues that have such items, or are paused.`

func queuesListCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the queues of durable processes", Long: queuesListLong, Args: app.NoArgs,
		Example: "  uniflow queues list --admin 127.0.0.1:9000\n  uniflow queues list --journal sqlite:runs.db",
	}
	o := newRunsOptions(a, cmd)
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return o.during(cmd, func(from runSource) error {
			all, err := from.queues(cmd.Context())
			switch {
			case err != nil:
				return err
			case o.asJSON:
				return a.PrintJSON(all)
			case len(all) == 0:
				a.Talk("no queues\n")
				return nil
			}
			return a.printQueues(all)
		})
	}
	return cmd
}

func (a commands) printQueues(all []api.Queue) error {
	var t show.Table
	t.Text("QUEUE", "NAMESPACE")
	t.Figures("QUEUED", "BEGUN", "OLDEST")
	t.Text("STATE")
	for _, q := range all {
		oldest, state := "", ""
		if q.Items.Oldest != nil {
			if age := time.Since(*q.Items.Oldest); age > 0 {
				oldest = show.Duration(age)
			}
		}
		if q.Items.Paused {
			state = "paused"
		}
		t.Row(show.Printable(q.Node.Name), show.Printable(q.Node.Namespace), strconv.Itoa(q.Items.Queued), strconv.Itoa(q.Items.Taken), oldest, state)
	}
	return a.Print(t.String())
}

// queuePath returns the path of an action on a queue.
func (o *runsOptions) queuePath(name, action string) string {
	path := api.QueuesPath + "/" + url.PathEscape(name) + "/" + action
	if o.Given(settings.Namespace) {
		path += "?" + url.Values{"namespace": {o.Namespace}}.Encode()
	}
	return path
}

// addQueueFlags adds the flags of a command that changes a queue.
func (o *runsOptions) addQueueFlags(cmd *cobra.Command) {
	o.addServedFlags(cmd, settings.Namespace)
	cmd.Flags().Lookup(settings.Namespace).Usage = "the `NAMESPACE` of the queue"
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

// queueSwitchCommand pauses a queue, or lets it go on.
func queueSwitchCommand(a commands, cmd *cobra.Command) *cobra.Command {
	action := cmd.Name()
	cmd.Args = app.OneArg("queue's name", "queues list prints the names")
	o := newRunsOptions(a, cmd)
	o.addQueueFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := o.program(cmd)
		if err != nil {
			return err
		}
		return p.change(cmd.Context(), o.queuePath(args[0], action), nil, nil)
	}
	return cmd
}

func queuesPauseCommand(a commands) *cobra.Command {
	return queueSwitchCommand(a, &cobra.Command{
		Use: "pause QUEUE", Short: "Let no more items of a queue begin",
		Long: `Pause lets no more items of a queue begin. Those that have begun go on, and others can be put. The queue stays
paused until queues resume, also when the program starts again. The scope control is needed.`,
		Example: "  uniflow queues pause --admin 127.0.0.1:9000 mail",
	})
}

func queuesResumeCommand(a commands) *cobra.Command {
	return queueSwitchCommand(a, &cobra.Command{
		Use: "resume QUEUE", Short: "Let items of a queue begin again",
		Long:    "Resume lets the items of a queue begin that was paused. The scope control is needed.",
		Example: "  uniflow queues resume --admin 127.0.0.1:9000 mail",
	})
}

const queuesPutLong = `Put puts an item into a queue, with the JSON in FILE as its payload; "-" is standard input. It returns when no
crash can lose the item, and prints the id of its run. What is put again with the same --id is put once: the
id of the first run is printed. The scope control is needed.`

func queuesPutCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "put QUEUE FILE", Short: "Put an item into a queue", Long: queuesPutLong,
		Example: "  uniflow queues put --admin 127.0.0.1:9000 mail item.json\n  echo '{\"to\": \"me\"}' | uniflow queues put --admin 127.0.0.1:9000 --id 7 mail -",
		Args:    cobra.ArbitraryArgs,
	}
	o := newRunsOptions(a, cmd)
	var item api.QueueItem
	var after time.Duration
	flags := cmd.Flags()
	flags.StringVar(&item.ID, "id", "", "put what has this `ID` once")
	flags.DurationVar(&after, "after", 0, "let it begin in `DURATION` at the earliest, such as 1h")
	flags.IntVar(&item.Priority, "priority", 0, "the `PRIORITY`, from -100 to 100: the greater is first, in a queue with order: priority")
	o.addQueueFlags(cmd)
	cmd.ValidArgsFunction = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return app.Usagef(cmd.CommandPath(), "write queues put QUEUE FILE", "put takes a queue and a file")
		}
		if err := app.NotNegative(cmd.CommandPath(), "after", after); err != nil {
			return err
		}
		file := args[1]
		if file != app.StdinPath {
			file = "@" + file
		}
		v, err := readPayload(cmd.CommandPath(), "FILE", file, a.Stdin)
		if err != nil {
			return err
		}
		if item.Payload, err = v.AppendJSON(nil); err != nil {
			return err
		}
		if after > 0 {
			item.After = after.String()
		}
		p, err := o.program(cmd)
		if err != nil {
			return err
		}
		var run api.Run
		if err := p.change(cmd.Context(), o.queuePath(args[0], "items"), item, &run); err != nil {
			return err
		}
		if o.asJSON {
			return a.PrintJSON(run)
		}
		return a.Print(run.ID + "\n")
	}
	return cmd
}
