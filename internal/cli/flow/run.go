package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

const runLong = `Run does the work of a workflow and ends.

With NODE, or if there is a node named main, it starts one process there with the
payload of --input, and prints the answer as a line of JSON. An answer that comes in
pieces is printed as it comes, a line each. No trigger is opened, as in "uniflow call",
which is for trying a workflow out: it has a time limit, and takes requests.

Without a NODE it runs the sources of the workflow to their end: files, queries,
standard input. A trigger that does not end, such as a listener, is refused unless
--for says how long to run.

On a terminal, standard error shows how much is done, the rate, errors and the time
left; --progress json writes a line of JSON each second, and none writes nothing. The
last line is a summary.

The exit code is 1 for an error, or if more messages than --allow-dead ended at the
port error of their source, or --max-dead of them in a row, without a good one: then
something is wrong with all of them, and the next run begins with these. It is 3 if a source or a sink has never connected. After SIGINT or SIGTERM nothing new is read, what has
begun is finished within --grace, and the exit code is 130 or 143: the next run goes on
where a source with a checkpoint has stopped. A second signal ends run immediately.`

const runExample = `  uniflow run examples/job-csv.yaml -e DATABASE=postgres://127.0.0.1/shop
  uniflow run flow.yaml report --input '{"month": "2026-11"}' > report.ndjson
  uniflow run stream.yaml --for 30s --progress json`

// runMain is the node that run starts a process at if none is named.
const runMain = "main"

// runOptions are the settings and flags of run.
type runOptions struct {
	*settings.Settings
	payload   payloadFlag
	limit     time.Duration // of sources; 0 for none
	progress  string
	allowDead int
	maxDead   int
	empty     bool
	connect   time.Duration
	given     bool // --input was given
}

func runCommand(a commands) *cobra.Command {
	o := &runOptions{Settings: settings.New()}
	var profiles profiles
	cmd := &cobra.Command{
		Use:     "run FILE... [NODE]",
		Short:   "Run a job to its end",
		Long:    runLong,
		Example: runExample,

		ValidArgsFunction: completeFilesAndNode,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.payload.addInput(flags)
	flags.DurationVar(&o.limit, "for", 0, "run the sources for at most `DURATION`, also those that do not end")
	o.addJob(cmd)
	profiles.addFlags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.given = flags.Changed("input")
		name, err := a.resolve(cmd, o.Settings, args)
		if err != nil {
			return err
		}
		return profiles.during(func() error { return a.run(cmd.Context(), cmd.CommandPath(), o, name) })
	}
	return cmd
}

func (o *runOptions) addJob(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.progress, "progress", progressAuto, "show `HOW` far the sources are: auto, none or json")
	app.CompleteFlag(cmd, "progress", progressForms)
	flags.BoolVar(&o.empty, "allow-empty", false, "a source may have nothing to read, such as no file for a pattern")
	flags.DurationVar(&o.connect, "connect-timeout", 30*time.Second, "exit with 3 if a node has not connected once after `DURATION`; 0 waits forever")
	flags.IntVar(&o.allowDead, "allow-dead", 0, "exit with 0 if up to `N` messages ended at the port error of their source")
	flags.IntVar(&o.maxDead, "max-dead", 100, "end after `N` such messages in a row without a good one, and keep the checkpoint before them; 0 never does")
	o.AddFlags(cmd, settings.FromSpecs, settings.FromValues, settings.Environment, settings.Namespace, "language", settings.Plugins, settings.AllowExec, "grace", "memory", "debug", "log-format")
	flags.Lookup(settings.FromSpecs).Usage = "read more specs from `FILE`; may be repeated"
}

// run starts a process at a node, or runs the sources.
func (a commands) run(ctx context.Context, command string, o *runOptions, name []string) error {
	if err := o.check(command); err != nil {
		return err
	}
	r, err := newReading(command, o.Settings, a.App)
	if err != nil {
		return err
	}
	defer a.bound(o.Settings)()
	if len(name) == 0 && r.hasMain(o.Namespace) {
		name = []string{runMain}
	}
	if len(name) == 0 {
		if o.given {
			return app.Usagef(command, "write run FILE NODE --input JSON, or name a node main", "--input is for a node, and none is named")
		}
		return a.job(ctx, command, o, r)
	}
	if o.limit > 0 {
		return app.Usagef(command, "leave out --for, or the node", "--for is for sources, and node %q is named", name[0])
	}
	in, err := o.payload.read(command, a.Stdin)
	if err != nil {
		return err
	}
	return a.Interruptible(ctx, func(ctx context.Context) error {
		return a.call(node.WithParts(ctx, &printer{a: a}), command, r, o.Settings, callee{name: name}, in, a.printLine)
	})
}

// check returns what is wrong with the flags of a job.
func (o *runOptions) check(command string) error {
	if err := checkPlugins(command, o.Settings); err != nil {
		return err
	}
	if err := app.OneOf(command, "progress", o.progress, progressForms); err != nil {
		return err
	}
	if err := app.OneOf(command, "log-format", o.LogFormat, app.LogFormats()); err != nil {
		return err
	}
	for flag, d := range map[string]time.Duration{"for": o.limit, "grace": o.Grace, "connect-timeout": o.connect} {
		if err := app.NotNegative(command, flag, d); err != nil {
			return err
		}
	}
	if o.allowDead < 0 {
		return app.Usagef(command, "", "--allow-dead must not be negative, got %d", o.allowDead)
	}
	if o.maxDead < 0 {
		return app.Usagef(command, "write 0 for no limit", "--max-dead must not be negative, got %d", o.maxDead)
	}
	return nil
}

// hasMain reports whether the documents have a node main. What is wrong with them is
// reported later.
func (r *reading) hasMain(namespace string) bool {
	src, _, err := r.read()
	if err != nil {
		return false
	}
	for _, doc := range src.specs {
		nodes, _ := spec.Parse(doc, spec.ParseOptions{Namespace: namespace})
		if slices.ContainsFunc(nodes, func(n *spec.Node) bool { return n.Name == runMain && n.Namespace == namespace }) {
			return true
		}
	}
	return false
}

// printLine writes a payload as a line of JSON.
func (a commands) printLine(v value.Value) error {
	data, err := v.AppendJSON(nil)
	if err != nil {
		return &app.ExitError{Code: app.ExitFindings, Err: fmt.Errorf("the result is not JSON: %w", err)}
	}
	return a.Print(string(data) + "\n")
}

// A printer prints the parts of an answer. Any goroutine may call it.
type printer struct {
	a  commands
	mu sync.Mutex
}

// Part implements [node.Parts].
func (p *printer) Part(_ context.Context, v value.Value) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.a.printLine(v)
}

// A job is a run of sources.
type job struct {
	commands
	opts    *runOptions
	engine  *uniflow.Engine
	show    *jobProgress
	endless bool              // a trigger does not end
	settled bool              // all that the sources have is settled
	left    []uniflow.Trigger // that have not ended yet
}

// job runs the sources of the documents.
func (a commands) job(ctx context.Context, command string, o *runOptions, r *reading) (err error) {
	src, list, err := r.read()
	if err != nil {
		return err
	}
	j, err := a.newJob(o, a.kinds(o.Language))
	if err != nil {
		return err
	}
	triggers, found := j.engine.TriggersOf(src.source())
	list.Append(found)
	list.Sort()
	if err := a.showFindings(list, src); err != nil {
		return errors.Join(err, j.engine.Shutdown(ctx))
	}
	if err := j.refuse(command, triggers, src); err != nil {
		return errors.Join(err, j.engine.Shutdown(ctx))
	}
	signals, stop := a.Signals(syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return j.run(ctx, src, signals)
}

// job is how the sources work. More dead letters are allowed than are too many if
// --allow-dead says so.
func (o *runOptions) job() *node.Job {
	job := &node.Job{AllowEmpty: o.empty}
	if o.maxDead > 0 {
		job.MaxDead = max(o.maxDead, o.allowDead)
	}
	return job
}

// refuse returns why the triggers cannot run as a job.
func (j *job) refuse(command string, triggers []uniflow.Trigger, src *sources) error {
	if hint := src.elsewhere(j.opts.Namespace); hint != "" {
		return app.Usagef(command, hint, "nothing to run: the namespace %q has no nodes", j.opts.Namespace)
	}
	if len(triggers) == 0 {
		return app.Usagef(command, "name a node: run FILE NODE --input JSON; or add a source, such as file_source", "nothing to run: the documents have neither a source nor a node main")
	}
	for _, t := range triggers {
		if t.Ends {
			continue
		}
		if j.opts.limit == 0 {
			return app.Usagef(command, "say for how long with --for DURATION, serve it with uniflow start, or name a node to run",
				"%s: node %q: a %s does not end by itself", t.Node.Pos, t.Node, t.Node.Kind)
		}
		j.endless = true
	}
	return nil
}

// run serves until the sources have ended, the time is over, or a signal comes.
func (j *job) run(ctx context.Context, src *sources, signals <-chan os.Signal) error {
	applying, cancel := context.WithCancel(ctx)
	defer cancel()
	applied := make(chan error, 1)
	var worker sync.WaitGroup
	worker.Go(func() {
		list, err := j.engine.Apply(applying, src.source())
		applied <- errors.Join(list.Err(), err)
	})
	var sig os.Signal
	select {
	case err := <-applied:
		if err != nil {
			return errors.Join(err, j.engine.Shutdown(ctx))
		}
	case sig = <-signals:
		cancel()
		<-applied // nodes that open obey their context
		return j.ended(ctx, sig, signals, nil)
	}
	worker.Wait()
	releaseStart()
	triggers := j.engine.Triggers()
	j.left = slices.DeleteFunc(slices.Clone(triggers), func(t uniflow.Trigger) bool { return !t.Ends })
	j.show.begin(triggers)
	var over <-chan time.Time
	if j.opts.limit > 0 {
		over = time.After(j.opts.limit)
	}
	unconnected := newUnconnected(j.engine, j.opts.connect)
	tick := time.NewTicker(progressPace)
	defer tick.Stop()
	for sig == nil && (j.endless || len(j.left) > 0) {
		select {
		case <-j.next():
			j.left = j.left[1:]
		case <-tick.C:
			j.show.tick()
			j.left = slices.DeleteFunc(j.left, func(t uniflow.Trigger) bool { return t.Progress().Err != nil })
			if reasons := unconnected.over(); len(reasons) > 0 {
				short, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
				defer cancel()
				err := j.engine.Shutdown(short)
				j.show.summary()
				return errors.Join(notReady(reasons), err)
			}
		case <-over:
			j.left, j.endless = nil, false
		case sig = <-signals:
		case <-ctx.Done():
			sig = syscall.SIGTERM
		}
	}
	return j.ended(context.WithoutCancel(ctx), sig, signals, triggers)
}

// lastWait is how long processes go on that wait for what is not there.
const lastWait = 100 * time.Millisecond

// unconnected are the nodes of a job that have not been ready once.
type unconnected struct {
	engine *uniflow.Engine
	until  time.Time
	never  map[node.Ref]error
}

func newUnconnected(engine *uniflow.Engine, limit time.Duration) *unconnected {
	u := &unconnected{engine: engine}
	if limit > 0 {
		u.until = time.Now().Add(limit)
		u.never = u.unready()
	}
	return u
}

// over returns why nodes have not been ready once, when the time is over.
func (u *unconnected) over() (reasons []error) {
	if len(u.never) == 0 {
		return nil
	}
	now := u.unready()
	maps.DeleteFunc(now, func(ref node.Ref, _ error) bool { return u.never[ref] == nil })
	if u.never = now; time.Now().Before(u.until) {
		return nil
	}
	return slices.Collect(maps.Values(now))
}

func (u *unconnected) unready() map[node.Ref]error {
	all := make(map[node.Ref]error)
	for _, err := range u.engine.Ready() {
		if of, ok := errors.AsType[*uniflow.ReadyError](err); ok {
			all[of.Node] = err
		}
	}
	return all
}

// next is closed when the first of the sources that are left has ended; nil without one.
func (j *job) next() <-chan struct{} {
	if len(j.left) == 0 {
		return nil
	}
	return j.left[0].Finished
}

// ended drains the engine and says how the job went. sig is the signal that has ended it,
// or nil.
func (j *job) ended(ctx context.Context, sig os.Signal, signals <-chan os.Signal, triggers []uniflow.Trigger) error {
	var unready []error
	ended := func(t uniflow.Trigger) bool { return t.Progress != nil && t.Progress().Err != nil }
	if sig == nil && !slices.ContainsFunc(triggers, ended) { // a source that has ended early is not ready either
		unready = j.engine.Ready()
	}
	done := make(chan error, 1)
	var worker sync.WaitGroup
	worker.Go(func() { done <- j.engine.Shutdown(ctx) })
	if sig != nil {
		j.Deadline = time.Now().Add(j.opts.Grace + gone)
		j.show.note("ending: what has begun is finished; a second %s ends it immediately", sig)
	}
	for {
		select {
		case err := <-done:
			worker.Wait()
			j.show.summary()
			if err != nil {
				return err
			}
			return errors.Join(j.outcome(sig, triggers), notReady(unready))
		case more := <-signals:
			if sig != nil {
				j.Deadline = time.Now()
				return &app.ExitError{Code: app.SignalCode(more), Err: errors.New("ended immediately")}
			}
			sig = more
		}
	}
}

// notReady returns the error of a job whose nodes had nothing to work with, such as a
// broker that was down all the time.
func notReady(reasons []error) error {
	if len(reasons) == 0 {
		return nil
	}
	return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("the job was never ready: %w", errors.Join(reasons...))}
}

// outcome returns the error that has the exit code of the job.
func (j *job) outcome(sig os.Signal, triggers []uniflow.Trigger) error {
	var errs []error
	j.settled = sig == nil
	if sig != nil {
		errs = append(errs, &app.ExitError{Code: app.SignalCode(sig), Err: fmt.Errorf("ended early (%s)", sig)})
	}
	dead := uint64(0)
	for _, t := range triggers {
		if t.Progress == nil {
			continue
		}
		p := t.Progress()
		dead += p.DeadLetters
		if p.Err != nil {
			j.settled = false
			errs = append(errs, &app.ExitError{Code: app.ExitFindings, Err: p.Err})
		}
	}
	if dead > uint64(j.opts.allowDead) {
		errs = append(errs, &app.ExitError{
			Code: app.ExitFindings, Err: fmt.Errorf("%s ended at the port error of their source", show.Count(int64(dead), "message")),
			Hint: fmt.Sprintf("--allow-dead %d accepts them", dead),
		})
	}
	return errors.Join(errs...)
}
