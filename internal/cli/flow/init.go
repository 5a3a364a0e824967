package flow

import (
	"bytes"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

const initLong = `Init writes an example workflow to the working folder or to FOLDER: flow.yaml with
comments and commands to try it, tests.yaml with its tests, and a config file, so that
check, test and start need no arguments. It never overwrites a file. Without a name, it
prints the list of examples; --json prints it for programs.

`

const initExample = `  uniflow init
  uniflow init ping
  uniflow init api my-api`

// A Starter is an example workflow, which init writes.
type Starter struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose"`
	Summary string `json:"summary"`
	Next    string `json:"next"` // the command that runs it, after check and test
	what    string // what that does
}

// Starters returns all starters, those of one purpose after each other.
func Starters() []Starter {
	const (
		servers    = "API servers"
		streams    = "Streams"
		jobs       = "Jobs"
		models     = "Chat and models"
		operations = "Operations"

		serves  = "serves on port 8000 until Ctrl-C"
		until   = "goes on until Ctrl-C"
		buckets = "uniflow start -e ACCESS_KEY=shop -e SECRET_KEY=shop-secret"
	)
	return []Starter{
		{"ping", servers, "one route with a constant response", "uniflow start", serves},
		{"api", servers, "an API over a database: a schema for what comes, 404, values", "uniflow start", serves},
		{"grpc", servers, "a gRPC API over a database", "uniflow start", serves},
		{"gateway", servers, "keys, a rate limit and a cache in front of a service", "uniflow start", serves},
		{"webhook", servers, "signed webhooks into a stream of NATS JetStream", "uniflow start", serves},
		{"score", servers, "orders that a function of Python scores, those to look at in a file", "uniflow start", serves},
		{"stream", streams, "a log file is followed, and what is wrong in it becomes alerts", "uniflow start", "writes alerts.ndjson until Ctrl-C"},
		{"events", streams, "events over HTTP, shipped in batches to uniflow loader", "uniflow start", serves},
		{"search", streams, "the changes of a table of PostgreSQL into a search index", "uniflow start", until},
		{"sensors", streams, "averages of each minute of MQTT sensors into PostgreSQL", "uniflow start", until},
		{"cache", streams, "a topic of Kafka as keys of Redis", "uniflow start", until},
		{"match", streams, "payments of Kafka with their orders, if they come within ten minutes", "uniflow start", until},
		{"deliver", streams, "a queue of RabbitMQ to a receiver, with a breaker and dead letters", "uniflow start", until},
		{"job", jobs, "a CSV file is loaded into a table, and bad rows into another file", "uniflow run flow.yaml", "loads orders.csv into orders.db, and ends"},
		{"pull", jobs, "the new pages of an API into a table, in one transaction", "uniflow start", until},
		{"queue", jobs, "a table of jobs in PostgreSQL, which NOTIFY says is not empty", "uniflow start", until},
		{"warehouse", jobs, "CSV files of a bucket of S3 into a table of PostgreSQL", buckets, until},
		{"archive", jobs, "events of a file into a bucket of S3, as Parquet", buckets, until},
		{"chat", models, "a page on which a bot answers, and asks back", "uniflow start", serves + ": open http://localhost:8000/"},
		{"assistant", models, "a page on which a model answers, with tools over a database", "uniflow start", serves + ": open http://localhost:8000/"},
		{"mcp", models, "tools over a database, for programs with a model", "uniflow start", serves},
		{"alerts", operations, "errors of a log file into a channel of Slack, not each by itself", "uniflow start", until},
		{"approval", operations, "an expense that a person approves, within days", "uniflow start", serves},
		{"report", operations, "a mail of what the database has, each Monday", "uniflow start", until},
	}
}

// starterList describes the starters by purpose, a line each.
func starterList() string {
	var b strings.Builder
	purpose := ""
	for _, s := range Starters() {
		if s.Purpose != purpose {
			if purpose != "" {
				b.WriteString("\n")
			}
			purpose = s.Purpose
			b.WriteString(purpose + "\n")
		}
		fmt.Fprintf(&b, "  %-9s  %s\n", s.Name, s.Summary)
	}
	return b.String()
}

func starterNames() (names []string) {
	for _, s := range Starters() {
		names = append(names, s.Name)
	}
	return names
}

//go:embed starters
var starterFiles embed.FS

// random stands for a secret in a file of a starter.
const random = "RANDOM"

func initCommand(a commands) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "init [NAME] [FOLDER]",
		Short:   "Write an example workflow",
		Long:    initLong + strings.TrimSuffix(starterList(), "\n"),
		Example: initExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if asJSON && len(args) > 0 {
				return app.Usagef(cmd.CommandPath(), "write uniflow init --json", "--json prints the list, and takes no name")
			}
			if len(args) > 2 {
				return app.Usagef(cmd.CommandPath(), "write init ping my-ping; uniflow init lists the names", "init takes a name and a folder, got %s", show.Count(int64(len(args)), "argument"))
			}
			return nil
		},
		ValidArgsFunction: app.CompleteWords(starterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				return a.PrintJSON(Starters())
			}
			if len(args) == 0 {
				return a.Print(starterList())
			}
			at := slices.Index(starterNames(), args[0])
			if at < 0 {
				hint := app.DidYouMean(args[0], starterNames(), "")
				if hint == "" {
					hint = "the starters are " + strings.Join(starterNames(), ", ")
				}
				return app.Usagef(cmd.CommandPath(), hint, "there is no starter %q", args[0])
			}
			folder := "."
			if len(args) > 1 {
				folder = args[1]
			}
			return a.init(Starters()[at], folder)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// init writes the files of a starter, unless one exists already.
func (a commands) init(s Starter, folder string) error {
	from := path.Join("starters", s.Name)
	entries, err := starterFiles.ReadDir(from)
	if err != nil {
		return err
	}
	targets := make([]string, len(entries))
	for i, entry := range entries {
		targets[i] = filepath.Join(folder, entry.Name())
		if entry.Name() == strings.TrimPrefix(settings.ConfigFile, ".") {
			targets[i] = filepath.Join(folder, settings.ConfigFile) // hidden files are not embedded
		}
		if _, err := os.Lstat(targets[i]); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = fmt.Errorf("%s is already there", targets[i])
			}
			return &app.ExitError{Code: app.ExitFailure, Err: err, Hint: "nothing was written; name another folder: uniflow init " + s.Name + " FOLDER"}
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for i, entry := range entries {
		data, err := starterFiles.ReadFile(path.Join(from, entry.Name()))
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if bytes.Contains(data, []byte(random)) {
			data, mode = bytes.ReplaceAll(data, []byte(random), []byte(rand.Text())), 0o600
		}
		f, err := os.OpenFile(targets[i], os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := a.Print(filepath.ToSlash(targets[i]) + "\n"); err != nil {
			return err
		}
	}
	a.Talk("next:\n")
	if folder != "." {
		a.Talk("  cd %s\n", filepath.ToSlash(folder))
	}
	for _, next := range [][2]string{{"uniflow check", "finds what is wrong"}, {"uniflow test", "runs tests.yaml"}, {s.Next, s.what}} {
		a.Talk("  %-*s  %s\n", len(s.Next), next[0], next[1])
	}
	a.Talk("flow.yaml says how to try it\n")
	return nil
}
