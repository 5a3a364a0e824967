package trail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// storeCommand adds the argument and the flag that name the store to a command.
func storeCommand(cmd *cobra.Command, db *string) *cobra.Command {
	flags := cmd.Flags()
	flags.SortFlags = false
	dbFlag(cmd, flags, db, "")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		rest, err := takeStore(cmd, db, args)
		if err == nil && len(rest) > 0 {
			err = app.Usagef(cmd.CommandPath(), extraHint(cmd), "%s takes one store, got %q too", cmd.Name(), rest[0])
		}
		return err
	}
	cmd.ValidArgsFunction = completeStore()
	return cmd
}

const infoLong = `Info shows what is in a store: the number of events and users, the first and the last
time, the names of events, their properties, and the files.`

func infoCommand(a commands) *cobra.Command {
	var db string
	var asJSON, segments bool
	cmd := storeCommand(&cobra.Command{
		Use: "info FOLDER", Short: "Show what is in a store", Long: infoLong,
		Example: "  uniflow trail info shop.trail\n  uniflow trail info shop.trail --segments",
	}, &db)
	cmd.Flags().BoolVar(&segments, "segments", false, "list the segments, too, and what takes their bytes")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var info trail.Info
		err := a.withTrail(cmd.Context(), db, trail.Options{ReadOnly: true}, func(_ context.Context, s *trail.Store) error {
			info = s.Info()
			return nil
		})
		if err != nil {
			return err
		}
		for _, d := range info.Damaged {
			a.Talk("warning: %s\n", d)
		}
		if asJSON {
			return a.PrintJSON(newInfoJSON(info))
		}
		return a.Print(infoText(info, segments))
	}
	return cmd
}

func infoText(info trail.Info, segments bool) string {
	var t show.Table
	t.Text("", "")
	t.Row("events", show.Thousands(info.Rows))
	if info.Users >= 0 {
		t.Row("users", show.Thousands(info.Users))
	} else {
		t.Row("users", "unknown: a segment is damaged")
	}
	if info.Rows > 0 {
		t.Row("from", momentText(info.MinTime))
		t.Row("to", momentText(info.MaxTime))
	}
	if info.Horizon != math.MinInt64 {
		t.Row("kept from", momentText(info.Horizon))
	}
	files := fmt.Sprintf("%s, %s", show.Count(int64(len(info.Segments)), "segment"), show.Bytes(info.Bytes))
	if perEvent := info.BytesPerEvent(); perEvent > 0 {
		files += fmt.Sprintf(", %.1f bytes an event", perEvent)
	}
	t.Row("files", files)
	if info.MemoryRows > 0 {
		t.Row("log", fmt.Sprintf("%s events, %s", show.Thousands(info.MemoryRows), show.Bytes(info.WALBytes)))
	}
	if info.Deleted > 0 {
		t.Row("deleted", show.Count(int64(info.Deleted), "user")+", until the next compaction")
	}
	text := t.Body()

	if len(info.Events) > 0 {
		var e show.Table
		e.Text("EVENT")
		e.Figures("COUNT")
		e.Text("")
		for _, n := range info.Events {
			e.Row(n.Name, show.Thousands(n.Count), show.Bar(float64(n.Count), float64(info.Events[0].Count)))
		}
		text += "\n" + e.String()
	}
	if len(info.Schema) > 0 {
		var p show.Table
		p.Text("PROPERTY", "TYPE")
		for _, f := range info.Schema {
			p.Row(f.Name, f.Type.String())
		}
		text += "\n" + p.String()
	}
	if len(info.Cohorts) > 0 {
		var c show.Table
		c.Text("COHORT")
		c.Figures("USERS")
		for _, one := range info.Cohorts {
			c.Row(one.Name, show.Thousands(one.Users))
		}
		text += "\n" + c.String()
	}
	if segments && len(info.Segments) > 0 {
		var s show.Table
		s.Text("SEGMENT", "FROM", "TO")
		s.Figures("EVENTS", "USERS", "SIZE")
		for _, one := range info.Segments {
			s.Row(one.File, momentText(one.MinTime), momentText(one.MaxTime), show.Thousands(one.Rows), show.Thousands(one.Users), show.Bytes(one.Bytes))
		}
		text += "\n" + s.String()
		var p show.Table
		p.Text("PART", "LAYOUT")
		p.Figures("SIZE", "BYTES AN EVENT")
		stored := max(info.Rows-info.MemoryRows, 1)
		for _, one := range info.Parts {
			p.Row(one.Name, one.Layout, show.Bytes(one.Bytes), fmt.Sprintf("%.3f", float64(one.Bytes)/float64(stored)))
		}
		text += "\n" + p.String()
	}
	return text
}

// momentText writes a time of an event for people, to the second.
func momentText(millis int64) string { return event.Time(millis).Format("2006-01-02 15:04:05 MST") }

// What info --json prints. Times are RFC 3339.
type (
	infoJSON struct {
		Events        int64          `json:"events"`
		InMemory      int64          `json:"events_in_log"` // of the events
		Users         *int64         `json:"users"`         // null if a segment is damaged
		From          string         `json:"from,omitempty"`
		To            string         `json:"to,omitempty"`
		KeptFrom      string         `json:"kept_from,omitempty"`
		Bytes         int64          `json:"bytes"`
		BytesPerEvent float64        `json:"bytes_per_event"`
		LogBytes      int64          `json:"log_bytes"`
		LogRecords    int64          `json:"log_records"`
		BucketSeconds int64          `json:"bucket_seconds"`
		Deleted       int            `json:"deleted_users"`
		Names         []countJSON    `json:"names"`
		Properties    []propertyJSON `json:"properties"`
		Cohorts       []cohortJSON   `json:"cohorts"`
		Segments      []segmentJSON  `json:"segments"`
		Parts         []partJSON     `json:"parts"`
		Damaged       []string       `json:"damaged"`
	}
	countJSON struct {
		Event string `json:"event"`
		Count int64  `json:"count"`
	}
	propertyJSON struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	cohortJSON struct {
		Name  string `json:"name"`
		Users int64  `json:"users"`
	}
	partJSON struct {
		Part   string `json:"part"`
		Layout string `json:"layout,omitempty"`
		Bytes  int64  `json:"bytes"`
	}
	segmentJSON struct {
		File   string `json:"file"`
		Events int64  `json:"events"`
		Users  int64  `json:"users"`
		Bytes  int64  `json:"bytes"`
		From   string `json:"from"`
		To     string `json:"to"`
	}
)

func newInfoJSON(info trail.Info) infoJSON {
	moment := func(millis int64) string { return event.Time(millis).Format(time.RFC3339Nano) }
	out := infoJSON{
		Events: info.Rows, InMemory: info.MemoryRows, Bytes: info.Bytes, BytesPerEvent: info.BytesPerEvent(),
		LogBytes: info.WALBytes, LogRecords: info.WALRecords, BucketSeconds: int64(info.Bucket / time.Second), Deleted: info.Deleted,
		Names: []countJSON{}, Properties: []propertyJSON{}, Cohorts: []cohortJSON{}, Segments: []segmentJSON{}, Parts: []partJSON{},
		Damaged: append([]string{}, info.Damaged...),
	}
	if info.Rows > 0 {
		out.From, out.To = moment(info.MinTime), moment(info.MaxTime)
	}
	if info.Horizon != math.MinInt64 {
		out.KeptFrom = moment(info.Horizon)
	}
	if info.Users >= 0 {
		out.Users = &info.Users
	}
	for _, n := range info.Events {
		out.Names = append(out.Names, countJSON{n.Name, n.Count})
	}
	for _, f := range info.Schema {
		out.Properties = append(out.Properties, propertyJSON{f.Name, f.Type.String()})
	}
	for _, c := range info.Cohorts {
		out.Cohorts = append(out.Cohorts, cohortJSON{c.Name, c.Users})
	}
	for _, s := range info.Segments {
		out.Segments = append(out.Segments, segmentJSON{s.File, s.Rows, s.Users, s.Bytes, moment(s.MinTime), moment(s.MaxTime)})
	}
	for _, p := range info.Parts {
		out.Parts = append(out.Parts, partJSON{p.Name, p.Layout, p.Bytes})
	}
	return out
}

const exportLong = `Export writes all events of a store to a Parquet file with the columns user, time, event
and the properties by name, sorted by the hash of the user and then by time. ClickHouse,
DuckDB and trail import read it. It does not have the ids of events, so events that are
imported from it are not recognized as duplicates when they come again with their ids.`

func exportCommand(a commands) *cobra.Command {
	var db, out string
	cmd := storeCommand(&cobra.Command{
		Use: "export FOLDER --out FILE", Short: "Write the events of a store to a Parquet file", Long: exportLong,
		Example: "  uniflow trail export shop.trail --out shop.parquet",
	}, &db)
	cmd.Flags().StringVarP(&out, "out", "o", "", "write `FILE`, which is replaced when all events are written; \"-\" is standard output")
	if err := cmd.MarkFlagFilename("out", "parquet"); err != nil {
		panic(err) // the flag was added above
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if out == "" {
			return app.Usagef(cmd.CommandPath(), "add --out events.parquet", "nowhere to write to: --out is missing")
		}
		return a.runExport(cmd.Context(), db, out)
	}
	return cmd
}

func (a commands) runExport(ctx context.Context, db, out string) error {
	progress := a.Progress()
	var rows int64
	begun := time.Now()
	write := func(ctx context.Context, s *trail.Store, w io.Writer) (err error) {
		rows, err = s.Export(ctx, w, func(rows, total int64) {
			progress.Update(show.Step{What: "exporting", Done: rows, Total: total, Events: rows})
		})
		return err
	}
	err := a.withTrail(ctx, db, trail.Options{ReadOnly: true}, func(ctx context.Context, s *trail.Store) error {
		if out == app.StdinPath {
			return write(ctx, s, a.Stdout)
		}
		return app.ReplaceFile(out, func(w io.Writer) error { return write(ctx, s, w) })
	})
	progress.End()
	if err != nil {
		return err
	}
	took := time.Since(begun)
	if out == app.StdinPath {
		out = "<stdout>"
	}
	a.Talk("%s: %s events in %s\n", out, show.Thousands(rows), show.Duration(took))
	return nil
}

const compactLong = `Compact merges the segments of a store until each span of time has one. Queries become
faster, and deleted events are removed from the disk. Meanwhile no other program may write
to the store; queries are possible.

--rebuild is for a store whose list of segments is damaged in both copies: it makes a
new list from the segments. Lost is what no segment has: deletions since the last
compaction, cohorts, and the position of each feed.`

func compactCommand(a commands) *cobra.Command {
	var db string
	var rebuild bool
	cmd := storeCommand(&cobra.Command{
		Use: "compact FOLDER", Short: "Merge the segments of a store", Long: compactLong,
		Example: "  uniflow trail compact shop.trail",
	}, &db)
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "make a new list of segments if both copies are damaged")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.checkStore(db); err != nil {
			return err
		}
		progress := a.Progress()
		var before, after trail.Info
		err := a.withTrail(cmd.Context(), db, trail.Options{Rebuild: rebuild}, func(ctx context.Context, s *trail.Store) error {
			before = s.Info()
			err := s.Compact(ctx, func(done, total int64) {
				progress.Update(show.Step{What: "compacting", Done: done, Total: total, Bytes: true})
			})
			after = s.Info()
			return err
		})
		progress.End()
		if err != nil {
			return err
		}
		a.Talk("%s of %s became %s of %s\n", show.Count(int64(len(before.Segments)), "segment"), show.Bytes(before.Bytes),
			show.Count(int64(len(after.Segments)), "segment"), show.Bytes(after.Bytes))
		return nil
	}
	return cmd
}

// checkStore refuses a folder that does not exist: opening it for writing would create
// a store.
func (a commands) checkStore(db string) error {
	_, err := os.Stat(db)
	if err == nil {
		return nil
	}
	return noStoreError(db, fmt.Errorf("%s: %w", db, trail.ErrNoStore))
}

const verifyLong = `Verify reads every byte of a store and lists damage: the file, the place, and what to do.
It exits with 0 if everything is sound, and with 1 if anything is damaged, missing or
unreadable. Without a store it exits with 3, as the other commands do. A damaged segment only affects the queries that need it.`

// verifyJSON is what verify --json prints.
type verifyJSON struct {
	Sound    bool         `json:"sound"`
	Segments int          `json:"segments"`
	Events   int64        `json:"events"`
	Records  int64        `json:"log_records"`
	Damages  []damageJSON `json:"damages"`
	Denied   []string     `json:"denied,omitempty"` // files that this user may not read
	Warnings []string     `json:"warnings,omitempty"`
}

// damageJSON is a damaged place in verifyJSON.
type damageJSON struct {
	File    string `json:"file"`
	Section string `json:"section,omitempty"`
	Offset  int64  `json:"offset"`
	Length  int64  `json:"length,omitempty"`
	Reason  string `json:"reason"`
	Hint    string `json:"hint,omitempty"`
}

func verifyCommand(a commands) *cobra.Command {
	var db string
	var asJSON bool
	cmd := storeCommand(&cobra.Command{
		Use: "verify FOLDER", Short: "Look for damage in a store", Long: verifyLong,
		Example: "  uniflow trail verify shop.trail",
	}, &db)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.runVerify(cmd.Context(), db, asJSON)
	}
	return cmd
}

func (a commands) runVerify(ctx context.Context, db string, asJSON bool) error {
	progress := a.Progress()
	var report trail.Report
	err := a.Interruptible(ctx, func(ctx context.Context) error {
		var err error
		report, err = trail.Verify(ctx, db, func(p trail.VerifyProgress) {
			progress.Update(show.Step{What: "verifying " + p.File, Done: p.Done, Total: p.Total, Bytes: true})
		})
		return err
	})
	progress.End()
	if errors.Is(err, trail.ErrNoStore) {
		return noStoreError(db, err)
	}
	if err != nil {
		return err
	}
	var warnings []string
	if report.Unfinished {
		warnings = []string{trail.UnfinishedImport}
		a.Talk("warning: %s\n", warnings[0])
	}
	if asJSON {
		out := verifyJSON{Sound: report.OK(), Segments: report.Segments, Events: report.Rows, Records: report.Records, Damages: []damageJSON{}, Denied: report.Denied, Warnings: warnings}
		for _, d := range report.Damages {
			out.Damages = append(out.Damages, damageJSON(d))
		}
		err = a.PrintJSON(out)
	} else {
		err = a.Print(verifyText(db, report))
	}
	switch {
	case err != nil || report.OK():
		return err
	case len(report.Damages) == 0:
		return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("%s may not be read", show.Count(int64(len(report.Denied)), "file")), Hint: "run it as the user that writes to the store"}
	}
	return app.ErrFindings()
}

// verifyText has a line for each damage, or says that there is none.
func verifyText(db string, r trail.Report) string {
	what := fmt.Sprintf("%s with %s, %s in the log", show.Count(int64(r.Segments), "segment"), show.Count(r.Rows, "event"), show.Count(r.Records, "record"))
	if r.OK() {
		return "sound: " + what + "\n"
	}
	var b strings.Builder
	hint := ""
	for _, d := range r.Damages {
		b.WriteString(filepath.Join(db, d.File) + strings.TrimPrefix(d.String(), d.File) + "\n")
		if d.Hint != "" && d.Hint != hint { // many places of one file have one hint
			hint = d.Hint
			b.WriteString("    hint: " + hint + "\n")
		}
	}
	for _, file := range r.Denied {
		b.WriteString(filepath.Join(db, file) + ": cannot be checked: this user may not read it\n")
	}
	verdict := "damaged: " + show.Count(int64(len(r.Damages)), "place")
	switch {
	case len(r.Damages) == 0:
		verdict = "not all could be checked: " + show.Count(int64(len(r.Denied)), "file") + " not read"
	case len(r.Denied) > 0:
		verdict += ", " + show.Count(int64(len(r.Denied)), "file") + " not read"
	}
	return b.String() + verdict + "; read " + what + "\n"
}
