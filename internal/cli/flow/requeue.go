package flow

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/deadletter"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

const requeueLong = `Requeue sends the messages of dead letters through a workflow again. Each begins at the
source that it came from, with the payload that it had, and with the retries, batches and
order of that source. The source does not connect to its system, and no other trigger of
the workflow is opened; all other nodes run as usual. The workflow may run meanwhile.

FILE is renamed to FILE.requeue first, so that a letter that fails again, or a new one,
comes into a new FILE. When all letters are settled, that is, answered well or taken by
the port error again, FILE.requeue is removed. If requeue is ended or killed, call it
again: it goes on with FILE.requeue, where it was. A letter that had been under way, or
settled just before a kill, goes through the workflow once more: use the id
of the message where that must not have an effect.

The exit code is as with run: 1 if more letters than --allow-dead have failed again, or
--max-dead in a row. Those that have failed are in the new FILE then, the others still in
FILE.requeue.`

// strayTime is how long after the file was renamed a sink of another program may write to
// it: file_sink looks for its file once a second.
const strayTime = 2 * time.Second

func requeueCommand(a commands) *cobra.Command {
	o := &runOptions{Settings: settings.New()}
	cmd := &cobra.Command{
		Use: "requeue FILE WORKFLOW...", Short: "Send dead letters through the workflow again", Long: requeueLong,
		Example: "  uniflow dead requeue dead.ndjson flow.yaml",
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.addJob(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		usage := app.Usagef(cmd.CommandPath(), "write dead requeue FILE WORKFLOW", "requeue takes a file of dead letters, and the files of the workflow")
		if len(args) == 0 || args[0] == app.StdinPath {
			return usage
		}
		if err := o.Resolve(a.App, cmd, args[1:]...); err != nil {
			return err
		}
		if len(o.Specs) == 0 {
			return usage
		}
		if err := o.check(cmd.CommandPath()); err != nil {
			return err
		}
		r, err := newReading(cmd.CommandPath(), o.Settings, a.App)
		if err != nil {
			return err
		}
		return a.requeue(cmd.Context(), cmd.CommandPath(), o, args[0], r)
	}
	return cmd
}

// requeue sends the letters of a file through the workflow: first those that an earlier
// one has begun with.
func (a commands) requeue(ctx context.Context, command string, o *runOptions, file string, r *reading) (err error) {
	lock, err := deadletter.Lock(file)
	if errors.Is(err, deadletter.ErrLocked) {
		err = &app.ExitError{Code: app.ExitFindings, Err: err}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	_, err = os.Stat(deadletter.Claim(file))
	begun := err == nil
	_, err = os.Stat(file)
	more := err == nil
	if !begun && !more {
		return app.InputError(file, err)
	}
	if begun {
		a.Talk("going on with %s\n", deadletter.Claim(file))
		if err := a.requeueOnce(ctx, command, o, file, deadletter.Claim(file), r); err != nil {
			return err
		}
	}
	if !more {
		return nil
	}
	return a.requeueOnce(ctx, command, o, file, file, r)
}

// requeueOnce sends the letters of a file, or of one that was renamed before, and removes
// it.
func (a commands) requeueOnce(ctx context.Context, command string, o *runOptions, file, now string, r *reading) error {
	counts, err := a.sourcesOf(now)
	if err != nil {
		return err
	}
	if len(counts) == 0 {
		a.Talk("%s has no dead letters\n", now)
		return nil
	}
	src, list, err := r.read()
	if err != nil {
		return err
	}
	claim := deadletter.Claim(file)
	again := &requeued{claim: claim, maxDead: o.job().MaxDead, letters: counts, sources: make(map[string]node.Ref)}
	kinds := a.kinds(o.Language)
	for i, def := range kinds {
		kinds[i] = again.kind(def)
	}
	j, err := a.newJob(o, kinds)
	if err != nil {
		return err
	}
	_, found := j.engine.TriggersOf(src.source())
	list.Append(found)
	list.Sort()
	if err := a.showFindings(list, src); err != nil {
		return errors.Join(err, j.engine.Shutdown(ctx))
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if _, ok := again.sources[name]; !ok {
			err := app.Usagef(command, "name the workflow that has written them", "%s has %s of the source %q, which the workflow does not have", now, show.Count(int64(counts[name]), "dead letter"), name)
			return errors.Join(err, j.engine.Shutdown(ctx))
		}
	}
	if now != claim {
		if err := again.take(file); err != nil {
			return errors.Join(err, j.engine.Shutdown(ctx))
		}
	}
	size, err := sizeOf(claim)
	if err != nil {
		return errors.Join(err, j.engine.Shutdown(ctx))
	}
	renamed := time.Now()
	signals, stop := a.Signals(syscall.SIGINT, syscall.SIGTERM)
	ended := j.run(ctx, src, signals)
	stop()
	if !j.settled {
		return ended
	}
	stray := time.NewTimer(time.Until(renamed.Add(strayTime)))
	defer stray.Stop()
	select {
	case <-stray.C:
	case <-ctx.Done():
		return errors.Join(ended, ctx.Err())
	}
	if grown, err := sizeOf(claim); err != nil || grown > size {
		if err == nil { // a sink has written to it before it saw that it was renamed
			err = a.requeueOnce(ctx, command, o, file, claim, r)
		}
		return errors.Join(ended, err)
	}
	return errors.Join(ended, again.remove())
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// requeued makes sources read letters, and other triggers start nothing.
type requeued struct {
	claim   string
	maxDead int
	letters map[string]int
	sources map[string]node.Ref // that read letters
}

func (q *requeued) kind(def *node.Def) *node.Def {
	if !def.Starts() {
		return def
	}
	made := *def
	made.New = func(init *node.Init) (node.Node, error) {
		if q.letters[init.Node.String()] == 0 {
			return passer{}, nil
		}
		in := *init
		in.Job = &node.Job{MaxDead: q.maxDead, Letters: q.claim}
		n, err := def.New(&in)
		if err != nil || !stream.TakesLetters(n) {
			return passer{}, err
		}
		q.sources[init.Node.String()] = init.Node
		return n, nil
	}
	return &made
}

// take renames the file of letters. What an earlier requeue may have left next to it is
// removed before.
func (q *requeued) take(file string) error {
	if err := q.forget(); err != nil {
		return err
	}
	if err := os.Rename(file, q.claim); err != nil {
		return err
	}
	return vfs.OS{}.SyncDir(filepath.Dir(file))
}

// remove removes the letters, which are settled. If it is killed before the last step,
// they are sent again.
func (q *requeued) remove() error {
	if err := q.forget(); err != nil {
		return err
	}
	return errors.Join(os.Remove(q.claim), vfs.OS{}.SyncDir(filepath.Dir(q.claim)))
}

// forget removes the files of positions.
func (q *requeued) forget() error {
	entries, err := os.ReadDir(filepath.Dir(q.claim))
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(q.claim)+".")
		if !ok || !strings.HasSuffix(strings.TrimSuffix(rest, ".lock"), ".pos") {
			continue
		}
		if err := os.Remove(filepath.Join(filepath.Dir(q.claim), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// newJob returns a job of an engine with some kinds.
func (a commands) newJob(o *runOptions, kinds []*node.Def) (*job, error) {
	j := &job{commands: a, opts: o, show: a.newJobProgress(o.progress)}
	grace := o.Grace
	if grace == 0 {
		grace = time.Nanosecond // 0 means the default to the engine
	}
	var err error
	j.engine, err = uniflow.New(uniflow.Options{
		Kinds: kinds, Namespace: o.Namespace, Grace: grace, Log: j.show.logger(o.Debug, o.LogFormat), Job: o.job(), Programs: a.programs(o.Settings), Memory: int64(o.Memory),
	})
	return j, err
}
