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
	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/internal/runs"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const runsLong = `Runs are durable processes: those of a trigger with the field durability, in a program that
runs with --journal. They go on after a crash.

With --admin ADDRESS the commands ask a running program, by the address that start --admin
names. With --journal sqlite:FILE, list and show read the file of a journal that no program
has; the others need the running program.`

func runsCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "runs", Short: "Show durable processes, and decide about them", Long: runsLong,
		Example: "  uniflow runs list --admin 127.0.0.1:9000\n  uniflow runs list --journal sqlite:runs.db --state failed,stuck\n  uniflow runs show --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71\n  uniflow runs signal --admin 127.0.0.1:9000 approved --key order-7",
		Args:    cobra.ArbitraryArgs, RunE: app.RunGroup,
	}
	cmd.AddCommand(runsListCommand(a), runsShowCommand(a), runsSignalCommand(a), runsPauseCommand(a), runsResumeCommand(a), runsCancelCommand(a), runsRetryCommand(a), runsRestartCommand(a), runsJobsCommand(a))
	return cmd
}

// runsOptions say where the runs are.
type runsOptions struct {
	commands
	*settings.Settings
	asJSON bool
	code   string
}

func newRunsOptions(a commands, cmd *cobra.Command) *runsOptions {
	o := &runsOptions{commands: a, Settings: settings.New()}
	cmd.Flags().SortFlags = false
	return o
}

// addFlags adds the flags that say where the runs are, behind those of the command, and those of more settings.
func (o *runsOptions) addFlags(cmd *cobra.Command, more ...string) {
	o.addServedFlags(cmd, append(more, settings.Journal)...)
	flags := cmd.Flags()
	flags.Lookup("code").Usage = codeOfAdmin
	flags.Lookup(settings.Journal).Usage = "read the journal at this `ADDRESS`, such as sqlite:runs.db, which no program has"
}

// codeOfAdmin says what the flag --code is for, where a program need not be asked.
const codeOfAdmin = "with --admin: the `CODE` at the end of the address that start --console prints"

// addServedFlags is addFlags for a command that needs the running program.
func (o *runsOptions) addServedFlags(cmd *cobra.Command, more ...string) {
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	o.addPlaces(cmd, more...)
}

// addPlaces adds the flags that say which program is asked, and those of more settings.
func (o *runsOptions) addPlaces(cmd *cobra.Command, more ...string) {
	flags := cmd.Flags()
	o.AddFlags(cmd, append(more, settings.Admin, settings.AdminToken)...)
	flags.StringVar(&o.code, "code", "", "the `CODE` at the end of the address that start --console prints")
	flags.Lookup(settings.Admin).Usage = "ask the running program with this admin `ADDRESS`"
}

// A runSource is where runs are read: a program or a file.
type runSource interface {
	list(ctx context.Context, q runs.Query) (api.Runs, error)
	show(ctx context.Context, id string, after int, payloads bool) (api.RunDetail, error)
	queues(ctx context.Context) ([]api.Queue, error)
}

// during calls f with the source that the command line names.
func (o *runsOptions) during(cmd *cobra.Command, f func(runSource) error) (err error) {
	if err := o.Resolve(o.App, cmd); err != nil {
		return err
	}
	if err := app.AtMostOneFlag(cmd, settings.Admin, settings.Journal); err != nil {
		return err
	}
	const hint = "write --admin 127.0.0.1:9000, as start --admin names it, or --journal sqlite:FILE"
	if o.Admin == "" && o.Journal == "" {
		return app.Usagef(cmd.CommandPath(), hint, "%s needs a running program or the file of a journal", cmd.Name())
	}
	// The config file may have both, for start.
	if o.Admin != "" && !o.Given(settings.Journal) {
		address, err := o.AdminAddress(cmd, hint)
		if err != nil {
			return err
		}
		from, err := o.served(cmd, address)
		if err != nil {
			return err
		}
		return f(from)
	}
	file, err := journalFile(cmd.CommandPath(), o.Journal)
	if err != nil {
		return err
	}
	return o.stored(file, f)
}

// stored calls f with the runs in the file of a journal.
func (o *runsOptions) stored(file string, f func(runSource) error) (err error) {
	store, err := oldJournal(file)
	if err != nil {
		return journalFailure(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	same := func(text string) string { return text }
	return f(&storedRuns{&runs.View{
		Journal: store, Nodes: func() []node.Ref { return nil }, Namespace: o.Namespace, Redact: same, Payload: plainPayload,
	}})
}

// served returns the runs of the program with an address.
func (o *runsOptions) served(cmd *cobra.Command, address string) (*servedRuns, error) {
	from := &servedRuns{client: &api.Client{Address: address, Token: o.AdminToken}, Settings: o.Settings}
	if o.code != "" {
		if err := from.client.Enter(cmd.Context(), o.code); err != nil {
			return nil, o.AdminFailure(err)
		}
	}
	return from, nil
}

// plainPayload shows a payload without what has the name of a credential. The secrets of the program that
// has written it are not known here.
func plainPayload(v *value.Value) api.Payload {
	if v == nil {
		return api.Payload{Kind: "none"}
	}
	return api.PayloadOf(redact.Fields(*v), v.Size())
}

// servedRuns are those of a running program.
type servedRuns struct {
	*settings.Settings
	client *api.Client
}

func (p *servedRuns) list(ctx context.Context, q runs.Query) (page api.Runs, err error) {
	query := url.Values{}
	set := func(name, text string) {
		if text != "" {
			query.Set(name, text)
		}
	}
	set("state", strings.Join(q.States, ","))
	set("trigger", q.Trigger)
	set("queue", q.Queue)
	if p.Given(settings.Namespace) {
		set("namespace", q.Namespace)
	}
	if !q.Since.IsZero() {
		set("since", time.Since(q.Since).String())
	}
	set("after", q.After)
	set("limit", strconv.Itoa(q.Limit))
	err = p.client.Get(ctx, api.RunsPath+"?"+query.Encode(), &page)
	return page, p.failure(err)
}

func (p *servedRuns) show(ctx context.Context, id string, after int, payloads bool) (run api.RunDetail, err error) {
	err = p.client.Get(ctx, fmt.Sprintf("%s/%s?after=%d&payloads=%t", api.RunsPath, url.PathEscape(id), after, payloads), &run)
	return run, p.failure(err)
}

// failure explains an error of a program that was asked.
func (p *servedRuns) failure(err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*api.StatusError](err); ok && refused.Answer.Hint != "" {
		switch refused.Status {
		case http.StatusBadRequest:
			return &app.ExitError{Code: app.ExitUsage, Err: errors.New(refused.Answer.Message), Hint: refused.Answer.Hint}
		case http.StatusNotFound:
			return &app.ExitError{Code: app.ExitFindings, Err: errors.New(refused.Answer.Message), Hint: refused.Answer.Hint}
		}
	}
	return p.AdminFailure(err)
}

// storedRuns are those in a file.
type storedRuns struct{ view *runs.View }

func (f *storedRuns) list(ctx context.Context, q runs.Query) (api.Runs, error) {
	page, err := f.view.List(ctx, q)
	return page, f.failure(err)
}

func (f *storedRuns) show(ctx context.Context, text string, after int, payloads bool) (api.RunDetail, error) {
	id, err := runs.ParseID(text)
	if err != nil {
		return api.RunDetail{}, f.failure(err)
	}
	run, err := f.view.Show(ctx, id, int32(after), payloads)
	return run, f.failure(err)
}

func (f *storedRuns) failure(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*runs.QueryError](err); ok {
		return &app.ExitError{Code: app.ExitUsage, Err: wrong, Hint: wrong.Hint}
	}
	if errors.Is(err, journal.ErrNotFound) {
		return &app.ExitError{Code: app.ExitFindings, Err: errors.New("there is no run with this id"), Hint: "it may have been removed: runs that have ended are kept for some time only"}
	}
	return journalFailure(err)
}

const runsListLong = `List prints a line for each run, the latest first: its id, its state, the trigger that has
started it, the level of its durability, when it began, how long it took, and why it has failed, or
what it waits for.

The states: queued: an item of a queue that has not begun; running; waiting: it only waits, and is not
in memory; ok, failed and cancelled, which have ended; dead: it was resumed five times without a new
record, as the program has crashed each time, or the last attempt of an item has failed; paused, by
a person; stuck: its documents have changed; diverged: run again, it did something else than its
records say. The last four are put aside: the program does not go on with them.`

const runsListExample = `  uniflow runs list --admin 127.0.0.1:9000
  uniflow runs list --admin 127.0.0.1:9000 --state failed,stuck --since 1h
  uniflow runs list --journal sqlite:runs.db --trigger orders --json | jq -r '.[].id'`

// A filter is the flags that select runs.
type filter struct {
	q     runs.Query
	since time.Duration
}

// addFilter adds the flags that select runs.
func addFilter(cmd *cobra.Command) *filter {
	f := new(filter)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.q.States, "state", nil, cmd.Name()+" those in these `STATES`, separated by commas")
	app.CompleteFlag(cmd, "state", runs.States())
	flags.StringVar(&f.q.Trigger, "trigger", "", cmd.Name()+" those that the node with this `NAME` or id has started")
	flags.StringVar(&f.q.Queue, "queue", "", cmd.Name()+" the items of the queue with this `NAME`")
	flags.DurationVar(&f.since, "since", 0, cmd.Name()+" those that began in the last `DURATION`, such as 1h")
	return f
}

// query returns what the flags select.
func (f *filter) query(cmd *cobra.Command) (runs.Query, error) {
	if err := app.NotNegative(cmd.CommandPath(), "since", f.since); err != nil {
		return f.q, err
	}
	for _, state := range f.q.States {
		if err := app.OneOf(cmd.CommandPath(), "state", state, runs.States()); err != nil {
			return f.q, err
		}
	}
	if f.since > 0 {
		f.q.Since = time.Now().Add(-f.since)
	}
	return f.q, nil
}

func runsListCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List durable processes", Long: runsListLong, Example: runsListExample, Args: app.NoArgs}
	o := newRunsOptions(a, cmd)
	f := addFilter(cmd)
	limit := 0
	cmd.Flags().IntVar(&limit, "limit", 100, "list up to `N`")
	o.addFlags(cmd, settings.Namespace)
	cmd.Flags().Lookup(settings.Namespace).Usage = "the `NAMESPACE` of the trigger"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return app.Usagef(cmd.CommandPath(), "write --limit 100", "--limit: want 1 or more, got %d", limit)
		}
		q, err := f.query(cmd)
		if err != nil {
			return err
		}
		return o.during(cmd, func(from runSource) error {
			q.Namespace = o.Namespace
			all, more := []api.Run{}, true
			for more && len(all) < limit {
				q.Limit = min(limit-len(all), api.MaxRuns)
				page, err := from.list(cmd.Context(), q)
				if err != nil {
					return err
				}
				all = append(all, page.Runs...)
				q.After, more = page.Next, page.Next != ""
			}
			if o.asJSON {
				return a.PrintJSON(all)
			}
			if err := a.printRuns(all); err != nil || !more {
				return err
			}
			a.Talk("there are more: --limit %d lists the next, too\n", 2*limit)
			return nil
		})
	}
	return cmd
}

func (a commands) printRuns(all []api.Run) error {
	if len(all) == 0 {
		a.Talk("no runs\n")
		return nil
	}
	var t show.Table
	t.Text("ID", "STATE", "TRIGGER", "LEVEL", "BEGAN")
	t.Figures("TOOK")
	t.Text("WHY")
	for _, r := range all {
		reason, _, _ := strings.Cut(r.Error, "\n")
		if text := []rune(reason); len(text) > reasonWidth {
			reason = string(text[:reasonWidth]) + "…"
		}
		if len(r.Waits) > 0 {
			reason = "waits for " + waitOf(&r.Waits[0])
			if more := len(r.Waits) - 1; more > 0 {
				reason += fmt.Sprintf(", and %d more", more)
			}
		}
		if q := r.Queue; q != nil && q.Failed > 0 && q.Due != nil {
			reason = fmt.Sprintf("again at %s: %s", q.Due.Format(time.RFC3339), reason)
		}
		t.Row(r.ID, r.State, nodeOf(r.Trigger), r.Level, r.Began.Format(time.RFC3339), tookOf(&r), show.Printable(reason))
	}
	return a.Print(t.String())
}

// waitOf says what a run waits for.
func waitOf(w *api.RunWait) string {
	var parts []string
	if w.Event != "" {
		parts = append(parts, strings.TrimSpace("event "+w.Event+" "+w.Key))
	}
	if w.Token {
		parts = append(parts, "a token")
	}
	if w.Due != nil {
		parts = append(parts, w.Due.Format(time.RFC3339))
	}
	text := strings.Join(parts, " or ")
	if w.Node != nil {
		text = nodeOf(*w.Node) + ": " + text
	}
	return show.Printable(text)
}

// nodeOf names a node by its name, else its id.
func nodeOf(n api.ProcessNode) string {
	if n.Name == "" {
		return show.Printable(n.ID)
	}
	return show.Printable(n.Name)
}

// tookOf is how long a run took; empty while it has not ended.
func tookOf(r *api.Run) string {
	if r.Ended == nil || !hasEnded(r) {
		return ""
	}
	return show.Duration(r.Ended.Sub(r.Began))
}

const runsShowLong = `Show prints a run, what it waits for, and the path that it took: a line for each record, which a crash
did not or would not lose. It has the number of the record, the node by its name, or by its id if it is
not known, and what it is:

  result   what the node made of a packet: an answer, an error, or a packet on an out-port
  note     a decision of the node
  hold     a wait has begun: for a signal, or a time
  arrival  what the node waited for has come
  child    a child process has ended

With the level accept there are no records but the start and the end. --payloads prints what the run
began with, what was recorded, and the answer, as JSON of up to 32 KiB each: what has the name of a
credential, such as Authorization or Cookie, is hidden, and by a running program its secrets, too. A
program demands the scope inspect for it.`

const runsShowExample = `  uniflow runs show --admin 127.0.0.1:9000 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71
  uniflow runs show --journal sqlite:runs.db --payloads 0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71`

func runsShowCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{Use: "show ID", Short: "Show the path of a durable process", Long: runsShowLong, Example: runsShowExample}
	cmd.Args = app.OneArg("run's id", "runs list prints the ids")
	o := newRunsOptions(a, cmd)
	payloads := false
	cmd.Flags().BoolVar(&payloads, "payloads", false, "print payloads, too")
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return o.during(cmd, func(from runSource) error {
			run, err := whole(cmd.Context(), from, args[0], payloads)
			switch {
			case err != nil:
				return err
			case o.asJSON:
				return a.PrintJSON(run)
			}
			return a.printRun(&run)
		})
	}
	return cmd
}

// hasEnded reports whether a run has ended, and was not only put aside.
func hasEnded(r *api.Run) bool {
	return journal.State(slices.Index(runs.States(), r.State)).Ended()
}

// recordTime has milliseconds: records follow each other fast.
const recordTime = "2006-01-02T15:04:05.000Z07:00"

func (a commands) printRun(run *api.RunDetail) error {
	r := &run.Run
	rows := [][]string{{"run", r.ID}, {"state", r.State}, {"trigger", nodeOf(r.Trigger)}, {"level", r.Level}, {"began", r.Began.Format(recordTime)}}
	if r.Ended != nil {
		name := "aside since"
		if hasEnded(r) {
			name = "ended"
		}
		rows = append(rows, []string{name, r.Ended.Format(recordTime)})
	}
	if q := r.Queue; q != nil {
		rows = append(rows, []string{"queue", show.Printable(q.Name)})
		if q.Key != "" {
			rows = append(rows, []string{"key", show.Printable(q.Key)})
		}
		if q.Priority != 0 {
			rows = append(rows, []string{"priority", strconv.Itoa(q.Priority)})
		}
		if q.Failed > 0 {
			rows = append(rows, []string{"failed", strconv.Itoa(q.Failed)})
		}
		if q.Due != nil {
			rows = append(rows, []string{"due", q.Due.Format(recordTime)})
		}
	}
	if r.Resumed > 0 {
		rows = append(rows, []string{"resumed", strconv.Itoa(r.Resumed)})
	}
	if r.Error != "" {
		rows = append(rows, []string{"error", show.Printable(r.Error)})
	}
	for _, w := range r.Waits {
		rows = append(rows, []string{"waits for", waitOf(&w)})
	}
	var b strings.Builder
	b.WriteString(app.Columns(rows))
	if len(run.Records) > 0 {
		var t show.Table
		t.Figures("N")
		t.Text("NODE", "TYPE", "OUTCOME", "PORT", "TIME")
		for _, rec := range run.Records {
			port := ""
			if rec.Port != nil {
				port = fmt.Sprintf("out[%d]", *rec.Port)
			}
			t.Row(strconv.Itoa(rec.N), nodeOf(rec.Node), rec.Type, rec.Outcome, port, rec.At.Format(recordTime))
		}
		b.WriteString("\n" + t.String())
	}
	printed := func(title string, p *api.Payload) {
		if p == nil {
			return
		}
		text := show.PrintableLines(p.Text)
		if p.Kind == "none" {
			text = "none"
		}
		if p.Cut {
			text += "…"
		}
		b.WriteString("\n" + title + "\n  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n")
	}
	printed("input", run.Input)
	for _, rec := range run.Records {
		printed(fmt.Sprintf("record %d, %s", rec.N, nodeOf(rec.Node)), rec.Payload)
	}
	printed("answer", run.Answer)
	return a.Print(b.String())
}
