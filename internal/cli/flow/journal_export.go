package flow

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/internal/runs"
)

const journalExportLong = `Export prints a line of JSON for each run, the latest first, as runs show --json has it: the run, what it
waits for, and its records. It reads the file of a journal that no program has, or asks a running program with
--admin. The filters are those of runs list.

--payloads adds what the runs began with, what was recorded, and the answers, of up to 32 KiB each: what has the
name of a credential is hidden, and by a running program its secrets, too. A program demands the scope inspect
for it.

One run is in memory at a time, however many there are. A program goes on meanwhile: each run is there as it is
when its turn comes, and one that is removed before is left out.`

const journalExportExample = `  uniflow journal export runs.db > runs.jsonl
  uniflow journal export runs.db --state failed --since 24h | jq -r '.run.error'
  uniflow journal export --admin 127.0.0.1:9000 --trigger orders --payloads`

func journalExportCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{Use: "export [FILE]", Short: "Print the runs of a journal as JSON lines", Long: journalExportLong, Example: journalExportExample}
	cmd.Args = app.AtMostOneArg("file")
	o := newRunsOptions(a, cmd)
	f := addFilter(cmd)
	payloads := false
	cmd.Flags().BoolVar(&payloads, "payloads", false, "with payloads, too")
	o.addPlaces(cmd, settings.Namespace)
	cmd.Flags().Lookup("code").Usage = codeOfAdmin
	cmd.Flags().Lookup(settings.Namespace).Usage = "the `NAMESPACE` of the trigger"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := f.query(cmd)
		if err != nil {
			return err
		}
		if err := o.Resolve(a.App, cmd); err != nil {
			return err
		}
		q.Namespace = o.Namespace
		export := func(from runSource) error {
			return a.Interruptible(cmd.Context(), func(ctx context.Context) error { return o.export(ctx, from, q, payloads) })
		}
		const hint = "write export runs.db, or --admin 127.0.0.1:9000, as start --admin names it"
		switch {
		case len(args) > 0 && o.Given(settings.Admin):
			return app.Usagef(cmd.CommandPath(), "leave one out", "FILE and --admin do not go together")
		case len(args) > 0:
			return o.stored(strings.TrimPrefix(args[0], sqlitePrefix), export)
		case o.Admin == "":
			return app.Usagef(cmd.CommandPath(), hint, "export needs the file of a journal, or a running program")
		}
		address, err := o.AdminAddress(cmd, hint)
		if err != nil {
			return err
		}
		from, err := o.served(cmd, address)
		if err != nil {
			return err
		}
		return export(from)
	}
	return cmd
}

// export prints the runs that a query selects.
func (o *runsOptions) export(ctx context.Context, from runSource, q runs.Query, payloads bool) (err error) {
	out := bufio.NewWriterSize(o.Stdout, 64<<10)
	progress := o.Progress()
	defer func() {
		progress.End()
		if failed := out.Flush(); failed != nil && err == nil {
			err = fmt.Errorf("write to standard output: %w", failed)
		}
	}()
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	n := int64(0)
	for more := true; more; {
		page, err := from.list(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			run, err := whole(ctx, from, page.Runs[i].ID, payloads)
			if removed(err) {
				continue
			}
			if err == nil {
				err = enc.Encode(run)
			}
			if err != nil {
				return err
			}
			n++
			progress.Line(show.Thousands(n) + " runs, back to " + run.Run.Began.Format(time.RFC3339))
		}
		q.After, more = page.Next, page.Next != ""
	}
	return nil
}

// removed reports whether an error of a [runSource] says that there is no such run.
func removed(err error) bool {
	exit, ok := errors.AsType[*app.ExitError](err)
	return ok && exit.Code == app.ExitFindings
}

// whole returns a run with all of its records.
func whole(ctx context.Context, from runSource, id string, payloads bool) (api.RunDetail, error) {
	run, err := from.show(ctx, id, 0, payloads)
	for err == nil && run.Next > 0 {
		var page api.RunDetail
		page, err = from.show(ctx, id, run.Next, payloads)
		run.Records, run.Next = append(run.Records, page.Records...), page.Next
	}
	return run, err
}
