package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

const importLong = `Import adds the events in files to the store in FOLDER, and creates the store if it does
not exist. The extension of a file gives its format: CSV, NDJSON (one JSON object per line)
or Parquet. Files with .gz and .zst after it are decompressed. "-" is NDJSON on standard
input.

One column is the user, one the time, one the name of the event; all others are
properties of events. Times are RFC 3339, or integers since 1970 in seconds,
milliseconds, microseconds or nanoseconds, recognized by their size. A row whose time is more
than 20 years ago or more than a day ahead is a bad row, unless --times allows it.

A file is imported as a whole or not at all. Bad rows are listed with their line. If a
file has more than --max-bad of them, the import stops with exit code 1; that file and those
after it are not imported.

With --id, events with the same user, time and id are stored once, even if they come
again in a later import. Without it every row is an event.`

const importExample = `  uniflow trail import shop.trail examples/shop.csv
  uniflow trail import shop.trail --user customer --time at --time-unit s --event what events.csv.gz
  uniflow trail import shop.trail --types zip:string,price:number --max-bad 100 *.csv
  producer | uniflow trail import shop.trail --id event_id -`

type importOptions struct {
	Fields
	db     string
	maxBad int
	bucket period
	noSync bool
	asJSON bool
}

func importCommand(a commands) *cobra.Command {
	o := &importOptions{}
	cmd := &cobra.Command{
		Use:               "import FOLDER FILE...",
		Short:             "Add the events of files to a store",
		Long:              importLong,
		Example:           importExample,
		ValidArgsFunction: completeStore(trail.ImportExtensions()...),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := takeStore(cmd, &o.db, args)
			if err != nil {
				return err
			}
			return a.runImport(cmd.Context(), cmd.CommandPath(), o, files)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	dbFlag(cmd, flags, &o.db, ", created if it is missing")
	o.AddFlags(cmd, "COLUMN")
	flags.IntVar(&o.maxBad, "max-bad", 0, "leave out up to `N` bad rows of a file")
	flags.Var(&o.bucket, "bucket", "keep this `DURATION` of events in one segment, 1h to 1176h; only for a new store; 672h, 28 days, by default")
	flags.BoolVar(&o.noSync, "no-sync", false, "do not wait for the disk: faster, but a power failure may lose what was imported")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// check refuses options that cannot be used, before anything is read.
func (o *importOptions) check(command string, files []string) error {
	switch {
	case len(files) == 0:
		return app.Usagef(command, "write import "+o.db+" FILE; \"-\" is standard input", "nothing to import: no file is named")
	case o.maxBad < 0:
		return app.Usagef(command, "", "--max-bad must not be negative, got %d", o.maxBad)
	}
	if b := time.Duration(o.bucket); b != 0 && (b < time.Hour || b > 49*24*time.Hour || b%time.Second != 0) {
		return app.Usagef(command, "write --bucket 168h for a week", "--bucket must be whole seconds from 1h to 1176h, got %s", b)
	}
	seen := make(map[string]bool)
	for _, f := range files {
		if seen[f] {
			return app.Usagef(command, "", "%q is there twice", f)
		}
		seen[f] = true
	}
	return o.Check(command)
}

// importJSON is what import --json prints.
type importJSON struct {
	Events int64      `json:"events"`
	Files  []fileJSON `json:"files"`
	Error  string     `json:"error,omitempty"` // why the import stopped
}

// fileJSON is a file in importJSON.
type fileJSON struct {
	File       string       `json:"file"`
	Taken      bool         `json:"taken"`
	Events     int64        `json:"events"` // imported; 0 if the file was not
	Duplicates int64        `json:"duplicates"`
	TooOld     int64        `json:"too_old"`
	Bad        int64        `json:"bad"`
	BadRows    []badRowJSON `json:"bad_rows,omitempty"` // the first 100
	ElapsedUS  int64        `json:"elapsed_us"`
}

// badRowJSON is a bad row in fileJSON.
type badRowJSON struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
}

func (a commands) runImport(ctx context.Context, command string, o *importOptions, files []string) error {
	if err := o.check(command, files); err != nil {
		return err
	}
	if err := cmp.Or(checkFiles(command, files), checkFolder(command, o.db)); err != nil {
		return err // before a store is made
	}
	progress := a.Progress()
	opt := o.Import()
	opt.MaxBad, opt.Stdin, opt.Advice = o.maxBad, a.Stdin, importAdvice
	opt.Progress = func(p trail.ImportProgress) {
		what := fileName(p.File)
		if p.Phase == "merge" {
			what += ", merging"
		}
		progress.Update(show.Step{What: what, Done: p.Bytes, Total: p.Total, Events: p.Rows})
	}
	var result trail.ImportResult
	err := a.withTrail(ctx, o.db, trail.Options{Bucket: time.Duration(o.bucket), Times: o.Times(), NoSync: o.noSync}, func(ctx context.Context, s *trail.Store) error {
		var err error
		result, err = s.Import(ctx, files, opt)
		return err
	})
	progress.End()
	return a.reportImport(o, files, result, err)
}

// fileName is the name of a file in messages.
func fileName(file string) string {
	if file == app.StdinPath {
		return "<stdin>"
	}
	return file
}

// reportImport prints which files were imported. Those after one that failed were not
// read.
func (a commands) reportImport(o *importOptions, files []string, result trail.ImportResult, err error) error {
	taken := 0
	for taken < len(result.Files) && result.Files[taken].Taken {
		taken++
	}
	if o.asJSON {
		out := importJSON{Events: result.Rows(), Files: []fileJSON{}}
		for _, f := range result.Files {
			out.Files = append(out.Files, newFileJSON(f))
		}
		if err != nil {
			out.Error = err.Error()
		}
		return errors.Join(importError(err), a.PrintJSON(out))
	}
	for i, f := range result.Files {
		a.printBadRows(f)
		if i < taken {
			a.Talk("%s\n", fileSummary(f))
		}
	}
	var ended *app.ExitError
	if err != nil && (len(files) > 1 || errors.As(err, &ended) && ended.Code > app.ExitFailure) { // by a signal
		a.Talk("imported: %s; not imported: %s\n", joinNames(files[:taken]), joinNames(files[taken:]))
	}
	return importError(err)
}

func newFileJSON(f trail.ImportFile) fileJSON {
	out := fileJSON{
		File: fileName(f.File), Taken: f.Taken, Events: f.Rows, Duplicates: f.Duplicates, TooOld: f.Dropped, Bad: f.Bad, ElapsedUS: f.Elapsed.Microseconds(),
	}
	for _, row := range f.BadRows {
		out.BadRows = append(out.BadRows, badRowJSON{row.Line, row.Reason})
	}
	return out
}

// fileSummary is the line about a file that was imported.
func fileSummary(f trail.ImportFile) string {
	text := fileName(f.File) + ": " + show.Count(f.Rows, "event")
	if f.Duplicates > 0 {
		text += ", " + show.Count(f.Duplicates, "duplicate")
	}
	if f.Dropped > 0 {
		text += ", " + show.Thousands(f.Dropped) + " left out as older than what is kept"
	}
	if f.Bad > 0 {
		text += ", " + show.Count(f.Bad, "bad row") + " left out"
	}
	return fmt.Sprintf("%s in %s (%s/s)", text, show.Duration(f.Elapsed), show.Thousands(show.PerSecond(f.Rows, f.Elapsed)))
}

// maxBadShown is how many bad rows of a file are printed.
const maxBadShown = 20

func (a commands) printBadRows(f trail.ImportFile) {
	shown := f.BadRows[:min(len(f.BadRows), maxBadShown)]
	for _, row := range shown {
		a.Talk("%s:%d: %s\n", fileName(f.File), row.Line, show.Printable(row.Reason))
	}
	if more := f.Bad - int64(len(shown)); more > 0 && len(shown) > 0 {
		a.Talk("%s: and %s\n", fileName(f.File), show.Count(more, "more bad row"))
	}
}

// joinNames lists files; "none" if there are none.
func joinNames(files []string) string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = fileName(f)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// importAdvice returns the flag that helps with an error of an import.
func importAdvice(err error) string {
	var column *trail.ColumnError
	var property *trail.PropertyError
	var kind *event.TypeError
	var inexact *event.InexactError
	var at *trail.TimeError
	switch {
	case errors.As(err, &column) && column.Role == "" && column.Nearest != "":
		return fmt.Sprintf("did you mean --types %s:TYPE?", column.Nearest)
	case errors.As(err, &column) && column.Role == "":
		return "--types names it"
	case errors.As(err, &column) && column.Nearest != "":
		return fmt.Sprintf("did you mean --%s %s?", column.Role, column.Nearest)
	case errors.As(err, &column):
		return fmt.Sprintf("name it with --%s", column.Role)
	case errors.As(err, &property) && property.AsString:
		return fmt.Sprintf("--types %s:string keeps it", property.Property)
	case errors.As(err, &property):
		return fmt.Sprintf("--types %s:skip leaves it out", property.Property)
	case errors.As(err, &inexact):
		return fmt.Sprintf("--types %s:string keeps both", inexact.Property)
	case errors.As(err, &at):
		return "--times any takes it"
	case errors.As(err, &kind):
		return typeAdvice(kind)
	}
	return ""
}

// typeAdvice returns how --types takes a property of another type than the store has.
func typeAdvice(err *event.TypeError) string {
	skip := fmt.Sprintf("--types %s:skip leaves it out", err.Property)
	switch {
	case err.Have == event.String:
		return fmt.Sprintf("--types %s:string reads it as a string", err.Property)
	case err.Have == event.Bool && err.Got == event.Int:
		return fmt.Sprintf("--types %s:boolean takes 0 and 1 for false and true, %s", err.Property, skip)
	case err.Got == event.String:
		return fmt.Sprintf("%s; with --types %s:%s the rows with other values are bad, and --max-bad leaves them out", skip, err.Property, err.Have)
	}
	return skip
}

// importError is the error of an import with its exit code: bad rows are findings.
func importError(err error) error {
	var bad *trail.BadRowsError
	var kind *event.TypeError
	var inexact *event.InexactError
	switch {
	case errors.As(err, &inexact):
		return &app.ExitError{Code: app.ExitFindings, Err: err, Hint: fmt.Sprintf("leave the property out with --types %s:skip, or make a store in which it is a string", inexact.Property)}
	case errors.As(err, &bad):
		return &app.ExitError{
			Code: app.ExitFindings, Hint: "correct the rows, or leave them out with --max-bad " + strconv.FormatInt(bad.Bad, 10),
			Err: fmt.Errorf("%s: %s cannot be read; the file was not imported", fileName(bad.File), show.Count(bad.Bad, "row")),
		}
	case errors.As(err, &kind):
		return &app.ExitError{Code: app.ExitFindings, Err: err}
	}
	return err
}
