// Package settings reads the settings of commands: from flags, else from environment
// variables, else from a config file, else defaults.
//
// Read [Settings] first: its table declares each setting once. The flag, the name of
// the variable, the key of the config file, the completion of shells and the page
// of the reference follow from it.
//
// The package must not know what a setting does.
package settings

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/lang/builtin"
)

// Settings are the settings of start. Other commands use some of them.
type Settings struct {
	Specs, Values       Paths
	Environment         Pairs
	Namespace, Language string
	Plugins             Paths
	AllowExec           bool
	Watch               bool
	Console             bool
	Edit                bool
	Keep                app.Size
	Journal             string
	Recover             string
	ConsoleCodeFile     string
	Admin, AdminToken   string
	AdminViewToken      string
	AdminScope          string
	AdminHosts          Words
	Grace               time.Duration
	Memory              app.Size // 0 is the engine's default
	Debug               bool
	LogFormat           string
	Slow                time.Duration
	SlowDir             string
	OTLP                string
	OTLPRatio           float64

	config string   // the path of the config file
	given  []string // the settings of the command line
}

// Given reports whether the command line has a setting. It is known after Resolve.
func (s *Settings) Given(name string) bool { return slices.Contains(s.given, name) }

// Paths are files and folders. In a config file they are relative to it; in an
// environment variable they are separated as in PATH.
type Paths []string

// Pairs are texts of the form KEY=VALUE: a map in the config file, a pair a line in
// an environment variable.
type Pairs []string

// Words are texts, separated by commas.
type Words []string

// The names of settings that are also used elsewhere.
const (
	FromSpecs   = "from-specs"
	FromValues  = "from-values"
	Environment = "environment"
	Console     = "console"
	Admin       = "admin"
	AdminToken  = "admin-token"
	OTLP        = "otlp"
	Namespace   = "namespace"
	Plugins     = "plugins"
	AllowExec   = "allow-exec"
	Watch       = "watch"
	Journal     = "journal"
	Config      = "config"
)

// ConfigFile is read from the working folder if no other file is named, and without one there
// from the folder that is the only argument.
const ConfigFile = ".uniflow.yaml"

// A setting is a row of the table of settings.
type setting struct {
	name, short string
	usage       string   // of the flag, with a placeholder in backquotes
	into        any      // points to the default, and to where the value goes
	words       []string // which the value should be one of
	secret      bool
}

// New returns the defaults.
func New() *Settings {
	return &Settings{Namespace: "default", Language: "cel", Grace: 10 * time.Second, LogFormat: "text", OTLPRatio: 1, AdminScope: api.Control.String(), Recover: Recoveries()[0]}
}

// Recoveries are what may become of the durable processes that a journal has at the start.
func Recoveries() []string { return []string{"resume", "paused"} }

func (s *Settings) table() []setting {
	return []setting{
		{name: FromSpecs, short: "f", into: &s.Specs, usage: "read specs from `FILE`, a folder, or \"-\" for standard input"},
		{name: FromValues, into: &s.Values, usage: "read variables from `FILE`, a folder of values files or mounted secrets, env:NAME, env:PREFIX*, file:PATH, or \"-\""},
		{name: Environment, short: "e", into: &s.Environment, usage: "bind `KEY=VALUE` for env entries that name no variable"},
		{name: Namespace, short: "n", into: &s.Namespace, usage: "the `NAMESPACE` of specs that name none, and the one to serve"},
		{name: "language", into: &s.Language, words: builtin.Languages().Names(), usage: "the `LANGUAGE` of expressions that name none"},
		{name: Plugins, into: &s.Plugins, usage: "read kinds from `FOLDER`, each a folder in it with a kind.yaml; to run them needs --allow-exec"},
		{name: AllowExec, into: &s.AllowExec, usage: "let nodes start programs: exec, python, mcp_call and llm with a command, and kinds of --plugins. Documents can then do what a shell can"},
		{name: Watch, short: "w", into: &s.Watch, usage: "reload when documents, values files, scripts or modules of WebAssembly in the same folders change"},
		{name: Console, into: &s.Console, usage: "serve the console for a browser, at --admin or 127.0.0.1:9000, and print an address for one session that may do everything"},
		{name: "keep", into: &s.Keep, usage: "record processes for the console although it does not look, and keep up to `SIZE` of those that ended last, failed or were slow"},
		{name: "edit", into: &s.Edit, usage: "let clients of the admin server that may control the program change the documents: they can do what a shell can"},
		{name: "console-code-file", into: &s.ConsoleCodeFile, usage: "write the address of --console to `FILE`, readable by its owner, in place of the terminal"},
		{name: Admin, into: &s.Admin, usage: "serve health, profiles and status on `ADDRESS`, such as 127.0.0.1:9000"},
		{name: AdminToken, into: &s.AdminToken, secret: true, usage: "the `TOKEN` that clients of the admin server send as \"Authorization: Bearer TOKEN\"; better set as UNIFLOW_ADMIN_TOKEN"},
		{name: "admin-view-token", into: &s.AdminViewToken, secret: true, usage: "the `TOKEN` of clients of the admin server that may look only; better set as UNIFLOW_ADMIN_VIEW_TOKEN"},
		{name: "admin-scope", into: &s.AdminScope, words: api.ScopeNames(), usage: "the `SCOPE` that no client of the admin server exceeds: view, inspect (contents of the log, too) or control (changes, too)"},
		{name: "admin-host", into: &s.AdminHosts, usage: "the `HOSTS` under which the admin server is asked, apart from localhost and addresses"},
		{name: "grace", into: &s.Grace, usage: "let processes go on for up to `DURATION` when shutting down"},
		{name: "memory", into: &s.Memory, usage: "hold up to `SIZE` of what has come and is not done, such as bodies and messages in flight; half of what the machine, the cgroup, the limits of the process and GOMEMLIMIT allow if left out"},
		{name: "debug", into: &s.Debug, usage: "log more"},
		{name: "log-format", into: &s.LogFormat, words: app.LogFormats(), usage: "log as `FORMAT`: text or json"},
		{name: Journal, into: &s.Journal, usage: "keep durable processes at this `ADDRESS`, such as sqlite:runs.db, and go on with them after a crash"},
		{name: "recover", into: &s.Recover, words: Recoveries(), usage: "what becomes of the durable processes that the journal has: `HOW` is resume, or paused until uniflow runs resume"},
		{name: "slow", into: &s.Slow, usage: "keep a timeline of each process that takes this `DURATION` or longer, and the runtime's trace of that time; adds a few percent of overhead"},
		{name: "slow-dir", into: &s.SlowDir, usage: "the `FOLDER` for the files of --slow, at most 64 MiB; uniflow/slow in the user's cache folder if left out"},
		{name: OTLP, into: &s.OTLP, usage: "send traces to the OpenTelemetry receiver at `URL`, such as http://127.0.0.1:4318, with OTLP over HTTP"},
		{name: "otlp-ratio", into: &s.OTLPRatio, usage: "send traces for this `SHARE`, 0 to 1, of the requests that arrive without a trace context; the others follow the sampling decision of their caller"},
	}
}

// AddFlags adds the flags of the settings with the given names, or of all.
func (s *Settings) AddFlags(cmd *cobra.Command, names ...string) {
	flags := cmd.Flags()
	for _, row := range s.table() {
		if len(names) > 0 && !slices.Contains(names, row.name) {
			continue
		}
		row.kind().flag(flags)
		if len(row.words) > 0 {
			app.CompleteFlag(cmd, row.name, row.words)
		}
	}
	where := " in the working folder"
	if flags.Lookup(FromSpecs) != nil {
		where += ", or in the only folder given,"
	}
	flags.StringVar(&s.config, Config, "", "read settings from `FILE`; "+ConfigFile+where+" if there is one")
}

// AddDocumentFlags adds the flags of the settings that say which documents to read,
// and how, and of more.
func (s *Settings) AddDocumentFlags(cmd *cobra.Command, more ...string) {
	s.AddFlags(cmd, append(more, FromSpecs, FromValues, Environment, Namespace, "language", Plugins)...)
}

// AddAdminFlags adds the flags that say which program to ask, and with which token.
func (s *Settings) AddAdminFlags(cmd *cobra.Command) {
	s.AddFlags(cmd, Admin, AdminToken)
	cmd.Flags().Lookup(Admin).Usage = "the `ADDRESS`, in place of the argument"
}

// AdminFailure explains an error of the program that was asked.
func (s *Settings) AdminFailure(err error) *app.ExitError {
	hint := "does the program run, and is it the address that start --admin names?"
	if refused, ok := errors.AsType[*api.StatusError](err); ok {
		hint = refused.Answer.Hint
		switch refused.Status {
		case http.StatusUnauthorized:
			hint = "set UNIFLOW_ADMIN_TOKEN to the token of the program"
		case http.StatusNotFound:
			hint = "write the address that start --admin names, not one that serves workflows"
		}
	}
	return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("%s: %w", s.Admin, err), Hint: hint}
}

// ResolveAdmin is Resolve for a command that asks a program. It returns the address of its admin server.
func (s *Settings) ResolveAdmin(a *app.App, cmd *cobra.Command, args ...string) (string, error) {
	for _, address := range args {
		if err := cmd.Flags().Set(Admin, address); err != nil {
			return "", err
		}
	}
	if err := s.Resolve(a, cmd); err != nil {
		return "", err
	}
	return s.AdminAddress(cmd, "write "+cmd.Name()+" 127.0.0.1:9000, as start --admin names it")
}

// AdminAddress returns the address at which the admin server of the settings is asked. They must be resolved.
func (s *Settings) AdminAddress(cmd *cobra.Command, hint string) (string, error) {
	if s.Admin == "" {
		return "", app.Usagef(cmd.CommandPath(), hint, "%s needs an address", cmd.Name())
	}
	host, port, err := net.SplitHostPort(s.Admin)
	if err != nil {
		return "", app.Usagef(cmd.CommandPath(), hint, "%w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "localhost" // a server on all addresses is also on this one
	}
	return net.JoinHostPort(host, port), nil
}

// Variable is the environment variable of a setting.
func Variable(name string) string {
	return "UNIFLOW_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Resolve takes specs from the arguments of a command, and fills the flags that were
// not given from the environment, and then from the config file. A list that was
// given replaces the other lists.
func (s *Settings) Resolve(a *app.App, cmd *cobra.Command, specs ...string) error {
	warnUnknown(a)
	for _, path := range specs {
		if err := cmd.Flags().Set(FromSpecs, path); err != nil {
			return err
		}
	}
	if s.config == "" {
		s.config = a.Getenv(Variable(Config))
	}
	file, err := readConfig(a, s.config)
	if err == nil && file.path == "" && len(s.Specs) == 1 {
		file, err = readFolderConfig(a, s.Specs[0])
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, row := range s.table() {
		f := cmd.Flags().Lookup(row.name)
		if f == nil {
			continue
		}
		if f.Changed {
			s.given = append(s.given, row.name)
			continue
		}
		if text := a.Getenv(Variable(row.name)); text != "" {
			if err := setFlag(f, row.kind().split(text)); err != nil {
				errs = append(errs, app.Usagef(cmd.CommandPath(), "", "environment variable %s: %w", Variable(row.name), err))
			}
			continue
		}
		if values, ok := file.values[row.name]; ok {
			if err := setFlag(f, values); err != nil {
				errs = append(errs, app.Usagef(cmd.CommandPath(), "", "%s: %s: %w", file.path, row.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// otherVariables are variables that are not settings of documents.
var otherVariables = []string{"UNIFLOW_CONFIG", "UNIFLOW_TRAIL_DSN"}

// foreign matches variables that others set: Kubernetes for a service called uniflow, and
// the tests of the program.
var foreign = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^UNIFLOW_(([A-Z0-9_]+_)?(SERVICE_(HOST|PORT)(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_.*)?)?)|TEST_.*|KILL_ROUNDS)$`)
})

// warnUnknown warns of variables of the environment that look like settings and are none.
func warnUnknown(a *app.App) {
	known := slices.Clone(otherVariables)
	for _, row := range New().table() {
		known = append(known, Variable(row.name))
	}
	var names []string
	for _, pair := range a.Environment() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "UNIFLOW_") && !slices.Contains(known, name) && !foreign().MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		a.Talk("uniflow: warning: the environment variable %s is not a setting\n", show.Printable(name))
		if hint := app.DidYouMean(name, known, ""); hint != "" {
			a.Talk("hint: %s\n", hint)
		}
	}
}

func setFlag(f *pflag.Flag, values []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	if err := f.Value.Set(values[0]); err != nil {
		return app.WrongValue(f, values[0], err)
	}
	return nil
}

// Markdown returns a table of the keys of the config file.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| key | environment variable | type | |\n| --- | --- | --- | --- |\n")
	for _, row := range New().table() {
		usage := strings.ReplaceAll(row.usage, "`", "")
		b.WriteString("| `" + row.name + "` | `" + Variable(row.name) + "` | " + row.kind().name + " | " + strings.ToUpper(usage[:1]) + usage[1:] + ". |\n")
	}
	return b.String()
}

// whole is how most kinds read a variable: as one value.
func whole(text string) []string { return []string{text} }

// lines is how [Pairs] read a variable: their values may hold anything else.
func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }
