package flow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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

const runsManyLong = `With several ids, or with --state, --trigger or --since in place of ids, the program does it with one run
after the other, the latest first, at most --rate in a second. A run that is refused holds up no other. At the
end it prints how many there were, and why some were refused; then the exit code is 1. Interrupted, the
program goes on: uniflow runs jobs says how far it is, and ends it. There is one such job at a time, which ends
with the program. --dry-run only counts the runs.`

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
	dry := false
	flags.BoolVar(&dry, "dry-run", false, "only count the runs")
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
		case len(args) == 1 && dry:
			return app.Usagef(cmd.CommandPath(), "runs show prints the run", "--dry-run counts runs, and there is one")
		case len(args) == 1 && (retry == nil || !retry.Latest):
			return o.act(cmd, args[0], nil)
		case len(args) == 1:
			return o.act(cmd, args[0], retry)
		}
		bulk := api.RunBulk{Do: cmd.Name(), Rate: int(rate), DryRun: dry}
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
		return o.Interruptible(cmd.Context(), func(ctx context.Context) error { return o.bulk(ctx, p, bulk, done) })
	}
	return cmd
}

// A tally is what came of many runs.
type tally struct {
	Selected int              `json:"selected,omitempty"`
	Done     int              `json:"done"`
	Refused  []api.RunRefused `json:"refused"`
}

// add adds what came of a job.
func (t *tally) add(job *api.RunJob) {
	t.Selected += job.Selected
	t.Done += job.Done
next:
	for _, r := range job.Refused {
		for i := range t.Refused {
			if known := &t.Refused[i]; known.Message == r.Message {
				known.Runs += r.Runs
				continue next
			}
		}
		t.Refused = append(t.Refused, r)
	}
}

// refused counts the runs that were refused.
func (t *tally) refused() (n int) {
	for _, r := range t.Refused {
		n += r.Runs
	}
	return n
}

// lookAtJob is how often the program is asked how far a job is.
const lookAtJob = 300 * time.Millisecond

// bulk lets the program do it, and waits until it has.
func (o *runsOptions) bulk(ctx context.Context, p *servedRuns, bulk api.RunBulk, done string) error {
	t := tally{Refused: []api.RunRefused{}}
	progress := o.Progress()
	var failure error
	for ids := bulk.IDs; failure == nil; {
		if ids != nil { // at most a page with one job
			bulk.IDs = ids[:min(len(ids), api.MaxRuns)]
		}
		var job api.RunJob
		job, failure = p.job(ctx, bulk, func(job *api.RunJob) {
			now := tally{Refused: slices.Clone(t.Refused), Done: t.Done}
			now.add(job)
			progress.Line(now.sum(done))
		})
		t.add(&job)
		if ids = ids[len(bulk.IDs):]; len(ids) == 0 {
			break
		}
	}
	progress.End()
	if ctx.Err() != nil {
		o.Talk("the program goes on with it: uniflow runs jobs says how far it is, and --cancel ends it\n")
		return ctx.Err()
	}
	switch {
	case failure != nil && t.Done+t.refused() == 0:
		return failure
	case o.asJSON:
		return errors.Join(failure, o.PrintJSON(t), t.findings(failure))
	case bulk.DryRun:
		return errors.Join(failure, o.Print(show.Thousands(int64(t.Selected))+" would be "+done+"\n"))
	}
	return errors.Join(failure, o.Print(t.text(done)), t.findings(failure))
}

// job starts a job, and returns what came of it. looked is told how far it is.
func (p *servedRuns) job(ctx context.Context, bulk api.RunBulk, looked func(*api.RunJob)) (job api.RunJob, err error) {
	if err := p.change(ctx, api.JobsPath, bulk, &job); err != nil {
		return job, err
	}
	timer := time.NewTimer(lookAtJob)
	defer timer.Stop()
	for id := job.ID; job.State == "running"; {
		looked(&job)
		select {
		case <-timer.C:
			timer.Reset(lookAtJob)
		case <-ctx.Done():
			return job, ctx.Err()
		}
		var now api.RunJob
		if err := p.client.Get(ctx, api.JobsPath+"/"+id, &now); err != nil {
			return job, fmt.Errorf("it is not known what came of the job: it has ended if the program has: %w", p.failure(err))
		}
		job = now
	}
	switch {
	case job.State == "cancelled" && job.Error == "":
		return job, errors.New("the job was cancelled")
	case job.Error != "":
		return job, errors.New(job.Error)
	}
	return job, nil
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

const runsJobsLong = `Jobs lists what the program was asked to do with many runs: whether it has ended, and how many runs it was
done with. A program remembers the last 20, and forgets them when it ends.

--cancel ends one. What it has done stays done. The scope control is needed for that.`

func runsJobsCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "jobs", Short: "Show what is done with many durable processes", Long: runsJobsLong, Args: app.NoArgs,
		Example: "  uniflow runs jobs --admin 127.0.0.1:9000\n  uniflow runs jobs --admin 127.0.0.1:9000 --cancel 5f1c0c9e-31a5-4b1f-9a53-0d2f3f0d7b60",
	}
	o := newRunsOptions(a, cmd)
	cancel := ""
	cmd.Flags().StringVar(&cancel, "cancel", "", "end the job with this `ID`")
	o.addServedFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := o.program(cmd)
		if err != nil {
			return err
		}
		var jobs []api.RunJob
		if cancel != "" {
			jobs = make([]api.RunJob, 1)
			err = p.failure(p.client.Send(cmd.Context(), http.MethodDelete, api.JobsPath+"/"+url.PathEscape(cancel), nil, &jobs[0]))
		} else {
			err = p.failure(p.client.Get(cmd.Context(), api.JobsPath, &jobs))
		}
		switch {
		case err != nil:
			return err
		case o.asJSON:
			return a.PrintJSON(jobs)
		case len(jobs) == 0:
			a.Talk("no jobs\n")
			return nil
		}
		var table show.Table
		table.Text("ID", "DO", "STATE", "BEGAN")
		table.Figures("DONE", "REFUSED")
		table.Text("WHY")
		for _, job := range jobs {
			t, why := tally{Refused: job.Refused}, show.Printable(job.Error)
			if job.Selected > 0 {
				why = "dry run: there are " + show.Thousands(int64(job.Selected))
			}
			table.Row(job.ID, job.Do, job.State, job.Began.Format(time.RFC3339), show.Thousands(int64(job.Done)), show.Thousands(int64(t.refused())), why)
		}
		return a.Print(table.String())
	}
	return cmd
}
