package flow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/internal/runs"
)

const runsManyLong = `With several ids, or with --state, --trigger or --since in place of ids, it is done with one run after the
other, the latest first, at most --rate in a second. A run that is refused holds up no other. At the end it
prints how many there were, and why some were refused; then the exit code is 1. Interrupted, it leaves
what is not done yet.`

// A pace is a flag of a number of runs in a second, such as 50/s.
type pace int

func (p *pace) String() string { return fmt.Sprintf("%d/s", int(*p)) }

// Set reads a pace.
func (p *pace) Set(text string) error {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "/s"))
	if err != nil || n < 1 || n > api.MaxRate {
		return fmt.Errorf("must be 1/s to %d/s", api.MaxRate)
	}
	*p = pace(n)
	return nil
}

// Type is the placeholder in the help.
func (*pace) Type() string { return "RATE" }

// runsManyCommand does something with one run, or with many. done is what a run is then, retry nil if they are
// not retried.
func runsManyCommand(a commands, done string, cmd *cobra.Command, retry *api.RunRetry) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ArbitraryArgs, cobra.NoFileCompletions
	o := newRunsOptions(a, cmd)
	var where api.RunFilter
	var since time.Duration
	rate := pace(50)
	flags := cmd.Flags()
	flags.StringSliceVar(&where.States, "state", nil, "those in these `STATES`, separated by commas")
	app.CompleteFlag(cmd, "state", runs.States())
	flags.StringVar(&where.Trigger, "trigger", "", "those that the node with this `NAME` or id has started")
	flags.DurationVar(&since, "since", 0, "those that began in the last `DURATION`, such as 1h")
	flags.Var(&rate, "rate", "how many in a second, at most")
	o.addServedFlags(cmd, settings.Namespace)
	flags.Lookup(settings.Namespace).Usage = "the `NAMESPACE` of the trigger"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := app.NotNegative(cmd.CommandPath(), "since", since); err != nil {
			return err
		}
		for _, state := range where.States {
			if err := app.OneOf(cmd.CommandPath(), "state", state, runs.States()); err != nil {
				return err
			}
		}
		filtered := len(where.States) > 0 || where.Trigger != "" || since > 0
		switch {
		case filtered && len(args) > 0:
			return app.Usagef(cmd.CommandPath(), "leave one out", "ids do not go together with --state, --trigger and --since")
		case !filtered && len(args) == 0:
			return app.Usagef(cmd.CommandPath(), "runs list prints the ids; --state, --trigger or --since select runs", "%s needs a run's id, or what selects runs", cmd.Name())
		case len(args) == 1 && (retry == nil || !retry.Latest):
			return o.act(cmd, args[0], nil)
		case len(args) == 1:
			return o.act(cmd, args[0], retry)
		}
		bulk := api.RunBulk{Do: cmd.Name(), Rate: int(rate)}
		if retry != nil {
			bulk.Latest = retry.Latest
		}
		for _, arg := range args {
			id, err := runID(cmd, arg)
			if err != nil {
				return err
			}
			bulk.IDs = append(bulk.IDs, id)
		}
		p, err := o.program(cmd)
		if err != nil {
			return err
		}
		if filtered {
			if since > 0 {
				where.Since = new(time.Now().Add(-since))
			}
			if o.Given(settings.Namespace) {
				where.Namespace = o.Namespace
			}
			bulk.Where = &where
		}
		return o.bulk(cmd, p, bulk, done)
	}
	return cmd
}

// A tally is what came of many runs. Reasons are kept with one run each: there may be a million runs.
type tally struct {
	Done    int       `json:"done"`
	Refused []refusal `json:"refused"`
}

// A refusal is why runs were refused.
type refusal struct {
	Runs    int    `json:"runs"`
	Message string `json:"message"`
	Example string `json:"example"` // the id of the first
}

// maxReasons is how many reasons are told apart.
const maxReasons = 20

func (t *tally) add(part api.RunBulked) {
	t.Done += part.Done
next:
	for _, r := range part.Refused {
		for i := range t.Refused {
			if known := &t.Refused[i]; known.Message == r.Message || i == maxReasons {
				known.Runs++
				continue next
			}
		}
		if len(t.Refused) == maxReasons {
			r.Message = "other reasons"
		}
		t.Refused = append(t.Refused, refusal{1, r.Message, r.ID})
	}
}

// refused counts the runs that were refused.
func (t *tally) refused() (n int) {
	for _, r := range t.Refused {
		n += r.Runs
	}
	return n
}

// bulk asks for one part after the other.
func (o *runsOptions) bulk(cmd *cobra.Command, p *servedRuns, bulk api.RunBulk, done string) error {
	t := tally{Refused: []refusal{}}
	progress := o.Progress()
	ids := bulk.IDs
	var failure error
	for failure == nil {
		if ids != nil { // at most a page with one request
			bulk.IDs = ids[:min(len(ids), api.MaxRuns)]
		}
		var part api.RunBulked
		if failure = p.change(cmd.Context(), api.RunsPath+"/bulk", bulk, &part); failure != nil {
			break
		}
		t.add(part)
		progress.Line(t.sum(done))
		if bulk.After = part.Next; part.Next != "" {
			continue
		}
		if ids = ids[len(bulk.IDs):]; len(ids) == 0 {
			break
		}
	}
	progress.End()
	if failure != nil && t.Done+t.refused() == 0 {
		return failure
	}
	if o.asJSON {
		return errors.Join(failure, o.PrintJSON(t), t.findings(failure))
	}
	return errors.Join(failure, o.Print(t.text(done)), t.findings(failure))
}

// findings makes the exit code that of runs that were refused; another failure has its own.
func (t *tally) findings(failure error) error {
	if failure != nil || len(t.Refused) == 0 {
		return nil
	}
	return app.ErrFindings()
}

func (t *tally) sum(done string) string {
	return fmt.Sprintf("%s %s, %s refused", show.Thousands(int64(t.Done)), done, show.Thousands(int64(t.refused())))
}

func (t *tally) text(done string) string {
	text := t.sum(done) + "\n"
	if len(t.Refused) == 0 {
		return text
	}
	var table show.Table
	table.Figures("RUNS")
	table.Text("REFUSED BECAUSE", "SUCH AS")
	for _, r := range t.Refused {
		table.Row(strconv.Itoa(r.Runs), show.Printable(r.Message), r.Example)
	}
	return text + "\n" + table.String()
}
