package trail

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/query"
)

const queryLong = `Query asks a store a question, which is a document of YAML or JSON: a funnel, a
retention, a segment, a cohort or paths. With users: it asks for the users behind a number.

FOLDER is the store, FILE the document, and "-" is standard input.

--sample 0.1 reads the events of a tenth of the users and scales the counts to all users;
± is the 95 % confidence interval.

--explain shows how the query would run, without running it: plan is what the store would
read; clickhouse and duckdb are the query in SQL, for a table named events with the columns
that trail export writes. ClickHouse's columns of strings must not be Nullable: a missing
string is empty there. The statement that creates the table goes to standard error.

--dsn asks a ClickHouse server by HTTP instead of the store; its table events is as above.
If you also pass --db, the server still answers; the store only supplies the types of the
properties.

The answer is a table, or one line of JSON with --json. The time and the bytes that it took
go to standard error. A document with errors ends with exit code 1.`

const queryExample = `  uniflow trail query shop.trail funnel.yaml
  uniflow trail query shop.trail --expr '{funnel: {steps: [view, cart, purchase], within: 24h}}'
  uniflow trail query shop.trail retention.yaml --sample 0.1 --json
  uniflow trail query shop.trail --expr '{funnel: {steps: [view, cart]}, users: {step: 1, dropped: true}}' --ids
  uniflow trail query shop.trail funnel.yaml --explain clickhouse
  uniflow trail query --dsn clickhouse://reader:secret@localhost:8123/shop funnel.yaml`

type queryOptions struct {
	db, file, expr string
	sample         share
	explain        string
	dsn            string
	timeout        period
	memory         app.Size
	save, ids      bool
	quiet          bool
	asJSON         bool

	answeredBy string // names the server that has answered, for the last line; empty for the store
}

// explainForms are what --explain takes.
func explainForms() []string { return []string{"plan", "clickhouse", "duckdb"} }

func queryCommand(a commands) *cobra.Command {
	o := &queryOptions{memory: 64 << 20}
	cmd := &cobra.Command{
		Use:     "query FOLDER FILE",
		Short:   "Ask for a funnel, retention, segment, cohort or paths",
		Long:    queryLong,
		Example: queryExample,

		ValidArgsFunction: completeStore("yaml", "yml", "json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd, args); err != nil {
				return err
			}
			return a.runQuery(cmd.Context(), cmd.CommandPath(), o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	dbFlag(cmd, flags, &o.db, "")
	flags.StringVarP(&o.file, "file", "f", "", "read the question from `FILE`, instead of the second argument; \"-\" is standard input")
	flags.StringVarP(&o.expr, "expr", "e", "", "the question itself, as `TEXT` in YAML or JSON")
	a.OldShorthand(flags, "file", "write the file as the second argument, or --file: -f is --from-specs")
	a.OldShorthand(flags, "expr", "write --expr: -e is --environment")
	flags.Var(&o.sample, "sample", "read only this `SHARE` of the users, above 0 and up to 1; overrides the document")
	flags.StringVar(&o.explain, "explain", "", "show how the query would run, as `FORM`: plan (the default), clickhouse or duckdb")
	flags.StringVar(&o.dsn, "dsn", "", "ask the ClickHouse server at `URL` instead of the store: clickhouse://USER:PASSWORD@HOST:PORT/DATABASE; better set as UNIFLOW_TRAIL_DSN if it has a password")
	flags.Var(&o.timeout, "timeout", "stop after this `DURATION`; 0 for no limit")
	flags.Var(&o.memory, "memory", "stop when the query needs more than `SIZE` of memory, not counting mapped files")
	flags.BoolVar(&o.save, "save", false, "save the users of a cohort, or of a question with users, under its name, for where: {cohort: NAME}")
	flags.BoolVar(&o.ids, "ids", false, "print the users of a cohort, or of a question with users, one per line")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "do not print the time and the bytes that it took")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON")
	flags.Lookup("explain").NoOptDefVal = "plan"
	app.CompleteFlag(cmd, "explain", explainForms())
	if err := cmd.MarkFlagFilename("file", "yaml", "yml", "json"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

// check reads the arguments and refuses options that cannot be used. For the parser,
// the form in "--explain FORM" is an argument.
func (o *queryOptions) check(cmd *cobra.Command, args []string) error {
	command := cmd.CommandPath()
	if o.explain == "plan" {
		args = o.takeForm(args)
	}
	if o.db == "" && o.dsn == "" && len(args) > 0 {
		var err error
		if args, err = takeStore(cmd, &o.db, args); err != nil {
			return err
		}
	}
	if o.file == "" && o.expr == "" && len(args) > 0 {
		o.file, args = args[0], args[1:]
	}
	form := o.explain
	if form != "" && len(args) > 0 {
		form = args[0]
	}
	if form != "" {
		if err := app.OneOf(command, "explain", form, explainForms()); err != nil {
			return err
		}
	}
	switch {
	case len(args) > 0:
		hint := extraHint(cmd)
		if o.db != "" && !cmd.Flags().Changed(flagDB) && (cmd.Flags().Changed("file") || o.expr != "") {
			hint = "--file or --expr has the question already: leave out one of the two"
		}
		return app.Usagef(command, hint, "query takes a store and a question, got %q too", args[0])
	case o.file == "" && o.expr == "":
		return app.Usagef(command, "write query FOLDER FILE, or --expr with the question itself", "there is no question")
	case o.file != "" && o.expr != "":
		return app.Usagef(command, "", "--file and --expr are two questions: ask one at a time")
	case o.timeout < 0:
		return app.Usagef(command, "write --timeout 10s for ten seconds", "--timeout must not be negative, got %s", &o.timeout)
	case o.dsn != "" && (o.save || o.ids):
		return app.Usagef(command, "ask the store with --db", "--save and --ids need a store, not --dsn")
	}
	return nil
}

// takeForm takes the form of --explain from the arguments, and returns the others. The
// form is the last argument, or any if there is one more than the store and the file.
func (o *queryOptions) takeForm(args []string) []string {
	needed := 0
	if o.db == "" && o.dsn == "" {
		needed++
	}
	if o.file == "" && o.expr == "" {
		needed++
	}
	for i, arg := range slices.Backward(args) {
		if slices.Contains(explainForms(), arg) {
			o.explain = arg
			return slices.Delete(slices.Clone(args), i, i+1)
		}
		if len(args) <= needed {
			break
		}
	}
	return args
}

func (a commands) runQuery(ctx context.Context, command string, o *queryOptions) error {
	if o.dsn == "" && o.db == "" {
		o.dsn = a.Getenv("UNIFLOW_TRAIL_DSN")
	}
	if o.dsn == "" {
		if o.db == "" {
			return app.Usagef(command, "write query shop.trail FILE", "no store is named")
		}
	}
	doc, err := a.question(command, o)
	if err != nil {
		return err
	}
	q, err := query.Parse(doc.File, doc.Data)
	if err != nil {
		return a.questionError(doc, err)
	}
	if o.sample > 0 {
		q.Sample = float64(o.sample)
	}
	switch {
	case (o.save || o.ids) && q.Cohort == nil && q.Users == nil:
		return app.Usagef(command, usersHint(q), "--save and --ids are about users: the document asks for numbers")
	case o.save && q.Name == "":
		return app.Usagef(command, "add name: NAME to the document", "--save: the cohort has no name")
	}
	var answer *query.Answer
	var text string
	if o.dsn != "" {
		answer, text, err = a.queryClickHouse(ctx, command, o, q)
	} else {
		answer, text, err = a.queryStore(ctx, o, q)
	}
	if err != nil {
		return a.questionError(doc, o.limitError(err))
	}
	if o.explain != "" {
		return a.Print(strings.TrimRight(text, "\n") + "\n")
	}
	return a.showAnswer(o, q, answer)
}

// usersHint is what to add to a document that asks for numbers.
func usersHint(q *query.Query) string {
	users := "{step: 1}"
	switch {
	case q.Retention != nil:
		users = "{cohort: 2026-01-05, period: 1}"
	case q.Segment != nil:
		users = "{}"
	case q.Paths != nil:
		users = "{path: [signup, view]}"
	}
	return "add users: " + users + " to the document for the users behind a number"
}

// limitError adds to an error of --timeout or --memory how to raise the limit. Other
// errors stay as they are.
func (o *queryOptions) limitError(err error) error {
	if memory := (*trail.MemoryError)(nil); errors.As(err, &memory) {
		return &app.ExitError{Code: app.ExitFailure, Err: err, Hint: "raise --memory, which is " + o.memory.String() + ", or read only some of the users with --sample 0.1"}
	}
	if o.timeout <= 0 || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("no answer within %s", &o.timeout), Hint: "raise --timeout, or read only some of the users with --sample 0.1"}
}

// question reads the document.
func (a commands) question(command string, o *queryOptions) (spec.Document, error) {
	switch o.file {
	case "":
		return spec.Document{File: "<expr>", Data: []byte(o.expr)}, nil
	case app.StdinPath:
		data, err := io.ReadAll(a.Stdin)
		if err != nil {
			return spec.Document{}, fmt.Errorf("standard input: %w", err)
		}
		return spec.Document{File: "<stdin>", Data: data}, nil
	}
	data, err := os.ReadFile(o.file)
	switch {
	case errors.Is(err, syscall.EISDIR):
		return spec.Document{}, app.Usagef(command, "name the file with the question", "%s is a folder", o.file)
	case err != nil:
		err = app.InputError(o.file, err)
	}
	return spec.Document{File: o.file, Data: data}, err
}

// queryStore asks the store, or explains how it would answer.
func (a commands) queryStore(ctx context.Context, o *queryOptions, q *query.Query) (answer *query.Answer, text string, err error) {
	// Only saving a cohort writes to the store.
	err = a.withTrail(ctx, o.db, trail.Options{ReadOnly: !o.save}, func(ctx context.Context, s *trail.Store) error {
		var err error
		opt := trail.QueryOptions{Sample: q.Sample, Memory: int64(o.memory), Timeout: time.Duration(o.timeout), IDs: o.ids, Users: o.ids, Save: o.save}
		switch o.explain {
		case "":
			answer, err = s.Query(ctx, q, opt)
		case "plan":
			text, err = s.Explain(q, opt)
		default:
			text, err = a.compileSQL(o, q, s)
		}
		return cohortHint(err, s)
	})
	return answer, text, err
}

// compileSQL writes a question in the SQL of another database.
func (a commands) compileSQL(o *queryOptions, q *query.Query, s *trail.Store) (string, error) {
	d := dialect.DuckDB
	if o.explain == "clickhouse" {
		d = dialect.ClickHouse
	}
	statement, err := dialect.Compile(d, q, s.Schema())
	if err != nil {
		return "", err
	}
	if d == dialect.ClickHouse && !o.quiet {
		a.Talk("-- The table for it; strings must not be Nullable:\n%s", dialect.Table(d, s.Schema()))
	}
	return a.explainSQL(statement), nil
}

// explainSQL returns the SQL of a statement, and prints its warnings.
func (a commands) explainSQL(s *dialect.Statement) string {
	for _, warning := range s.Warnings {
		a.Talk("warning: %s\n", warning)
	}
	return s.SQL
}

// showAnswer prints an answer, then the time and the bytes that it took.
func (a commands) showAnswer(o *queryOptions, q *query.Query, answer *query.Answer) error {
	if o.asJSON {
		data, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return a.Print(string(data) + "\n")
	}
	for _, warning := range answer.Stats.Warnings {
		a.Talk("warning: %s\n", warning)
	}
	text := answerText(q, answer)
	if o.ids && answer.Cohort != nil {
		var b strings.Builder
		for _, u := range answer.Cohort.Found {
			b.WriteString(cmp.Or(u.ID, fmt.Sprintf("%016x", u.Hash)) + "\n")
		}
		text = b.String()
	}
	if err := a.Print(text); err != nil {
		return err
	}
	if o.save {
		a.Talk("saved cohort %q: %s\n", q.Name, show.Count(answer.Cohort.Users.N, "user"))
	}
	if !o.quiet {
		a.Talk("%s%s\n", statsText(answer.Stats), o.answeredBy)
	}
	return nil
}

// questionError prints errors of a document with its lines. Other errors stay as they
// are.
func (a commands) questionError(doc spec.Document, err error) error {
	var problems query.Errors
	var problem *query.Error
	var literal *dialect.LiteralError
	switch {
	case errors.As(err, &problems):
	case errors.As(err, &problem):
		problems = query.Errors{problem}
	case errors.As(err, &literal):
		bare := *literal
		bare.Pos = query.Pos{}
		problems = query.Errors{{Pos: literal.Pos, Msg: bare.Error()}}
	default:
		return err
	}
	var list diag.List
	for _, p := range problems {
		list.Add(&diag.Diagnostic{Pos: diag.Pos{File: cmp.Or(p.File, doc.File), Line: p.Line, Col: p.Column}, Msg: p.Msg, Hint: p.Hint})
	}
	text := func(file string) []byte {
		if file == doc.File {
			return doc.Data
		}
		return nil
	}
	if err := diag.Render(a.Stderr, list, text, a.ColourErr); err != nil {
		return err
	}
	a.Talk("%s\n", app.CountFindings(list))
	return app.ErrFindings()
}
