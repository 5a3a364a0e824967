package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
)

const commandsIntro = `# Command line

What ` + "`uniflow help`" + ` and ` + "`uniflow COMMAND --help`" + ` print. Data goes to standard output, messages go to standard
error. Findings are coloured only on a terminal, and not if ` + "`NO_COLOR`" + ` is set.

| exit code | meaning |
| --- | --- |
`

const configIntro = `## Settings

Settings come from flags, else from environment variables, else from a config file, else from defaults. A list from one place replaces the
lists from later ones. The config file is ` + "`" + settings.ConfigFile + "`" + ` in the working folder, or what ` + "`--config`" + ` or ` + "`UNIFLOW_CONFIG`" + ` names. Without these it is that
of a folder which is the only argument, as in ` + "`uniflow check my-api`" + `. Then all documents in the folder are read, whatever ` + "`from-specs`" + ` says, and a config file that leads out of the folder,
by a link or by ` + "`from-values`" + `, is left out with a warning. It is YAML;
an unknown or malformed key is an error with its place. Paths in it are relative to its own folder; environment is a map.
A duration without a unit is in milliseconds there, as in documents; a flag and a variable need the unit.

`

const configOutro = `
Paths in a variable are separated as in ` + "`PATH`" + `. ` + "`UNIFLOW_ENVIRONMENT`" + ` has one pair per line.

` + "```yaml\nfrom-specs: [flows, shared/errors.yaml]\nenvironment:\n  REGION: eu\nwatch: true\nadmin: 127.0.0.1:9000\n```\n"

// CommandsPage is the reference page of the commands. The same program gives the
// same bytes.
func CommandsPage() string {
	quiet := app.Machine{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
		Getenv:   func(string) string { return "" },
		Terminal: func(io.Writer) bool { return false },
	}
	root := root(app.New(nil, quiet))
	root.SetContext(context.Background())
	var b strings.Builder
	b.WriteString(reference.Generated + commandsIntro)
	for _, row := range app.ExitCodes() {
		b.WriteString("| " + row[0] + " | " + row[1] + " |\n")
	}
	b.WriteString("\n")
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			commandPage(&b, cmd, "## ")
		}
	}
	b.WriteString(configIntro)
	b.WriteString(settings.Markdown())
	b.WriteString(configOutro)
	return b.String()
}

// commandPage writes about a command and its subcommands.
func commandPage(b *strings.Builder, cmd *cobra.Command, heading string) {
	cmd.InitDefaultHelpFlag()
	use := cmd.UseLine()
	title := cmd.CommandPath()
	_, title, _ = strings.Cut(title, " ") // of the program
	b.WriteString(heading + title + "\n\n")
	if cmd.Name() == "completion" {
		b.WriteString("Prints a script that completes commands and flags, for `bash`, `zsh`, `fish` or `powershell`. `uniflow completion SHELL --help` shows how to load it.\n\n" +
			"```text\nuniflow completion SHELL\n```\n\n")
		return
	}
	b.WriteString("```text\n" + use + "\n```\n\n" + cmd.Long + "\n\n")
	if cmd.Example != "" {
		b.WriteString("```sh\n" + unindent(cmd.Example) + "\n```\n\n")
	}
	b.WriteString("| flag | |\n| --- | --- |\n")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		what, usage := pflag.UnquoteUsage(f)
		name := "`--" + f.Name
		if f.Shorthand != "" && f.ShorthandDeprecated == "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if what != "" {
			name += " " + what
		}
		b.WriteString("| " + name + "` | " + flagCell(f, usage) + " |\n")
	})
	b.WriteString("\n")
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			commandPage(b, below, "#"+heading)
		}
	}
}

// flagCell is the usage of a flag with its default.
func flagCell(f *pflag.Flag, usage string) string {
	usage = strings.ToUpper(usage[:1]) + usage[1:] + "."
	switch f.DefValue {
	case "", "false", "[]":
	default:
		usage += " Default: `" + f.DefValue + "`."
	}
	return strings.ReplaceAll(usage, "|", `\|`)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ")
}

func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
