package flow

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/deadletter"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

const deadLong = `Dead is for dead letters: the messages that a source has sent to its port error, in a
file that a file_sink has written. List and show print them; requeue sends them through
the workflow again.`

func deadCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "List dead letters, and send them through the workflow again", Long: deadLong,
		Example: "  uniflow dead list dead.ndjson\n  uniflow dead show dead.ndjson 3\n  uniflow dead requeue dead.ndjson flow.yaml",
		Args:    cobra.ArbitraryArgs, RunE: app.RunGroup,
	}
	cmd.AddCommand(deadListCommand(a), deadShowCommand(a), requeueCommand(a))
	return cmd
}

// eachLetter calls f for the lines of a file; - is standard input.
func (a commands) eachLetter(path string, f func(l *deadletter.Letter) error) (err error) {
	in := a.Stdin
	if path != app.StdinPath {
		file, err := os.Open(path)
		if err != nil {
			return app.InputError(path, err)
		}
		defer file.Close()
		in = file
	}
	return deadletter.Each(in, 0, f)
}

// listedLetter is one element of what dead list --json prints.
type listedLetter struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Time     string `json:"time,omitempty"`
	Source   string `json:"source"`
	Kind     string `json:"kind,omitempty"`
	Failed   string `json:"failed,omitempty"`
	Place    string `json:"place,omitempty"`
	Attempts string `json:"attempts,omitempty"`
	ID       string `json:"id,omitempty"`
	Code     string `json:"code,omitempty"`
	Reason   string `json:"reason"`
}

const deadListLong = `List prints a line for each dead letter in the files, - is standard input: where it is in
its file, when it failed, the source, the node that failed with its place, the attempts,
the id of the message, and the reason.`

func deadListCommand(a commands) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list FILE...", Short: "List dead letters", Long: deadListLong,
		Example: "  uniflow dead list dead.ndjson\n  uniflow dead list --json dead.ndjson",
		Args:    someFiles,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		all := []listedLetter{}
		for _, path := range args {
			err := a.eachLetter(path, func(l *deadletter.Letter) error {
				if l.Source() == "" {
					a.Talk("%s:%d: not a dead letter\n", path, l.Line)
					return nil
				}
				all = append(all, listedLetter{
					File: path, Line: l.Line, Time: l.Field("letter", "time"), Source: l.Source(), Kind: l.Field("letter", "source"), Failed: l.Field("letter", "failed"),
					Place: l.Field("letter", "place"), Attempts: l.Field("letter", "attempts"), ID: l.Field("data", "id"), Code: l.Field("code"), Reason: l.Reason(),
				})
				return nil
			})
			if err != nil {
				return err
			}
			if _, err := os.Stat(deadletter.Claim(path)); err == nil {
				a.Talk("%s has letters that a requeue has begun with: uniflow dead requeue %s goes on\n", deadletter.Claim(path), path)
			}
		}
		if asJSON {
			return a.PrintJSON(all)
		}
		return a.printLetters(all, len(args) > 1)
	}
	return cmd
}

// reasonWidth is how many characters of a reason a table shows.
const reasonWidth = 100

func (a commands) printLetters(all []listedLetter, files bool) error {
	if len(all) == 0 {
		a.Talk("no dead letters\n")
		return nil
	}
	var t show.Table
	t.Figures("LINE")
	t.Text("TIME", "SOURCE", "FAILED", "PLACE")
	t.Figures("ATTEMPTS")
	t.Text("ID", "REASON")
	for _, l := range all {
		line := strconv.Itoa(l.Line)
		if files {
			line = l.File + ":" + line
		}
		reason, _, _ := strings.Cut(l.Reason, "\n")
		if text := []rune(reason); len(text) > reasonWidth {
			reason = string(text[:reasonWidth]) + "…"
		}
		at, _, _ := strings.Cut(l.Time, ".")
		t.Row(line, at, show.Printable(l.Source), show.Printable(l.Failed), show.Printable(l.Place), l.Attempts, show.Printable(l.ID), show.Printable(reason))
	}
	return a.Print(t.String())
}

func deadShowCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show FILE [LINE...]", Short: "Print dead letters in full",
		Long:    "Show prints the dead letters of a file as indented JSON: all, or only the lines with the given numbers, which dead list prints. - is standard input.",
		Example: "  uniflow dead show dead.ndjson 3 4",
		Args:    someFiles,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var lines []int
		for _, text := range args[1:] {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return app.Usagef(cmd.CommandPath(), "dead list prints the numbers", "show takes a file and numbers of lines, got %q", text)
			}
			lines = append(lines, n)
		}
		missing := slices.Clone(lines)
		err := a.eachLetter(args[0], func(l *deadletter.Letter) error {
			if len(lines) > 0 && !slices.Contains(lines, l.Line) {
				return nil
			}
			missing = slices.DeleteFunc(missing, func(n int) bool { return n == l.Line })
			if l.V.IsNull() {
				return a.Print(show.Printable(string(l.Raw)) + "\n")
			}
			return a.PrintJSON(json.RawMessage(l.Raw))
		})
		if err == nil && len(missing) > 0 {
			err = &app.ExitError{Code: app.ExitFindings, Err: fmt.Errorf("%s has no letter in line %d", args[0], missing[0])}
		}
		return err
	}
	return cmd
}

// someFiles are the arguments of a command about files.
func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return app.Usagef(cmd.CommandPath(), "name the file of the sink behind the port error", "%s takes a file, got nothing", cmd.Name())
	}
	return nil
}

// sourcesOf counts the letters of a file by their source.
func (a commands) sourcesOf(path string) (counts map[string]int, err error) {
	counts = make(map[string]int)
	err = a.eachLetter(path, func(l *deadletter.Letter) error {
		if name := l.Source(); name != "" {
			counts[name]++
		}
		return nil
	})
	return counts, err
}
