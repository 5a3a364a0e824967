package flow

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/value"
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

// A letter is a line of a file of dead letters.
type letter struct {
	line int
	raw  []byte
	v    value.Value // null if the line is not JSON
}

func (l *letter) field(path ...string) string {
	v := l.v
	for _, name := range path {
		v, _ = v.Get(name)
	}
	if v.IsNull() {
		return ""
	}
	return v.String()
}

// source is the node that the letter is of; empty if the line is not a letter.
func (l *letter) source() string { return l.field("node") }

// reason is why the message has failed, without the node and the place, which are known.
func (l *letter) reason() string {
	reason := l.field("message")
	at := fmt.Sprintf("node %q (%s): ", l.field("letter", "failed"), l.field("letter", "place"))
	return strings.TrimPrefix(reason, at)
}

// eachLetter calls f for the lines of a file; - is standard input.
func (a commands) eachLetter(path string, f func(l *letter) error) (err error) {
	in := a.Stdin
	if path != app.StdinPath {
		file, err := os.Open(path)
		if err != nil {
			return app.InputError(path, err)
		}
		defer file.Close()
		in = file
	}
	lines := bufio.NewReaderSize(in, 64<<10)
	for n := 1; ; n++ {
		raw, err := lines.ReadBytes('\n')
		if text := strings.TrimSpace(string(raw)); text != "" {
			l := &letter{line: n, raw: []byte(text)}
			if v, bad := value.ParseJSON(l.raw); bad == nil && v.Kind() == value.KindMap {
				l.v = v
			}
			if err := f(l); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
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
			err := a.eachLetter(path, func(l *letter) error {
				if l.source() == "" {
					a.Talk("%s:%d: not a dead letter\n", path, l.line)
					return nil
				}
				all = append(all, listedLetter{
					File: path, Line: l.line, Time: l.field("letter", "time"), Source: l.source(), Kind: l.field("letter", "source"), Failed: l.field("letter", "failed"),
					Place: l.field("letter", "place"), Attempts: l.field("letter", "attempts"), ID: l.field("data", "id"), Code: l.field("code"), Reason: l.reason(),
				})
				return nil
			})
			if err != nil {
				return err
			}
			if _, err := os.Stat(claimOf(path)); err == nil {
				a.Talk("%s has letters that a requeue has begun with: uniflow dead requeue %s goes on\n", claimOf(path), path)
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
		err := a.eachLetter(args[0], func(l *letter) error {
			if len(lines) > 0 && !slices.Contains(lines, l.line) {
				return nil
			}
			missing = slices.DeleteFunc(missing, func(n int) bool { return n == l.line })
			if l.v.IsNull() {
				return a.Print(show.Printable(string(l.raw)) + "\n")
			}
			return a.PrintJSON(json.RawMessage(l.raw))
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
	err = a.eachLetter(path, func(l *letter) error {
		if name := l.source(); name != "" {
			counts[name]++
		}
		return nil
	})
	return counts, err
}
