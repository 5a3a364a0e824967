package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

const evalLong = `Eval evaluates code on one payload and prints the result as JSON.

JavaScript and TypeScript with an export are modules, as in a snippet. Other code is an
expression over self and the keys of the payload, as in a condition. If the code does
not compile, or fails, eval prints the place and exits with 1.`

const evalExample = `  uniflow eval 'size(items) > 2' --input '{"items": [1, 2, 3]}'
  uniflow eval --language javascript 'export default (r) => r.a + 1' --input '{"a": 1}'
  uniflow eval 'self.name' --input @payload.json`

const callLong = `Call sends one payload to a node and prints the response as JSON. No port is opened: a
payload for a listener is a request, which goes on as if a client had sent it. All
other nodes really run, so nodes that write still write.

NODE may be left out if the workflow has one trigger, or with a PATH one listener. PATH
is that of a request, with its query. What a client would send, and --input does not
have, is filled in: method, query, header, remote and so on; --input is a map with any
of them. That is done for a listener, a router, a node that only these link to, and
wherever there is a PATH.

For an error response call names the node where the error began, and exits with 1; so it
does for an answer that counts as failed, with a status of 400 or more. Call is for
trying a workflow out; "uniflow run" is for work: it has no time limit, prints an answer
in pieces as it comes, and runs the sources of a workflow.`

const callExample = `  uniflow call examples/ping.yaml /ping
  uniflow call examples/api.yaml '/products?limit=2' --input '{"remote": "192.0.2.1"}'
  uniflow call examples/prices.yaml price --input '{"body": {"item": "tea", "count": 2}}'
  generate | uniflow call flow.yaml greet --input -`

// A payloadFlag is the payload of call and eval.
type payloadFlag struct {
	input   string
	timeout time.Duration
}

func (p *payloadFlag) addInput(flags *pflag.FlagSet) {
	flags.StringVarP(&p.input, "input", "i", "null", "the payload as `JSON`; @FILE reads a file, and \"-\" standard input")
}

func (p *payloadFlag) addFlags(flags *pflag.FlagSet) {
	p.addInput(flags)
	flags.DurationVar(&p.timeout, "timeout", 10*time.Second, "stop with an error after `DURATION`; 0 for no limit")
}

func (p *payloadFlag) read(command string, stdin io.Reader) (value.Value, error) {
	if err := app.NotNegative(command, "timeout", p.timeout); err != nil {
		return value.Value{}, err
	}
	return readPayload(command, "--input", p.input, stdin)
}

// readPayload returns the payload that a flag has: JSON, or @ and a file, or - for standard input.
func readPayload(command, flag, given string, stdin io.Reader) (value.Value, error) {
	text, name := []byte(given), flag
	path, isFile := strings.CutPrefix(given, "@")
	if isFile || given == app.StdinPath {
		if !isFile {
			path = app.StdinPath
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return value.Value{}, app.Usagef(command, "name one file", "%s: %s is a folder", flag, path)
		}
		docs, err := spec.Read([]string{path}, stdin)
		if err != nil {
			return value.Value{}, app.Usagef(command, "", "%s: %w", flag, err)
		}
		text, name = docs[0].Data, docs[0].File
	}
	v, err := value.ParseJSON(text)
	if err != nil {
		return v, app.Usagef(command, `write JSON such as '{"a": 1}' or '"text"'`, "%s: %w", name, err)
	}
	return v, nil
}

func evalCommand(a commands) *cobra.Command {
	var p payloadFlag
	var language, code string
	cmd := &cobra.Command{
		Use:               "eval CODE",
		Short:             "Evaluate code on a payload",
		Long:              evalLong,
		Example:           evalExample,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&code, "expr", "e", "", "the `CODE`, in place of the argument")
	flags.StringVarP(&language, "language", "l", "cel", "the `LANGUAGE` of the code")
	a.OldShorthand(flags, "expr", "write eval CODE: -e is --environment")
	a.OldShorthand(flags, "language", "write --language: -l is --list")
	app.CompleteFlag(cmd, "language", builtin.Languages().Names())
	p.addFlags(flags)
	cmd.Args = app.AtMostOneArg("expression")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := flags.Changed("expr")
		switch {
		case given && len(args) > 0:
			return app.Usagef(cmd.CommandPath(), "leave one of them out", "the code is there twice: as an argument, and as --expr")
		case !given && len(args) == 0:
			return app.Usagef(cmd.CommandPath(), "write eval CODE", "there is no code")
		case !given:
			code = args[0]
		}
		if err := checkLanguage(cmd.CommandPath(), language); err != nil {
			return err
		}
		in, err := p.read(cmd.CommandPath(), a.Stdin)
		if err != nil {
			return err
		}
		return a.eval(cmd.Context(), language, code, in, p.timeout)
	}
	return cmd
}

func (a commands) eval(ctx context.Context, language, code string, in value.Value, timeout time.Duration) error {
	const file = "<code>"
	lines := make([]diag.Pos, 1+strings.Count(code, "\n"))
	for i := range lines {
		lines[i] = diag.Pos{File: file, Line: i + 1, Col: 1}
	}
	opts := lang.Options{Mode: lang.ModeExpression, Timeout: timeout}
	if strings.Contains(code, "export ") {
		opts.Mode = lang.ModeFunction
	}
	program, err := builtin.Languages().Compile(language, diag.NewText(code, file, lines[0], lines), opts)
	var out value.Value
	if err == nil {
		out, err = program.Eval(ctx, in)
	}
	if err != nil {
		list := asFindings(err)
		if err := diag.Render(a.Stderr, list, func(string) []byte { return []byte(code) }, a.ColourErr); err != nil {
			return err
		}
		return app.ErrFindings()
	}
	return a.printValue(out)
}

// asFindings turns an error in code into findings.
func asFindings(err error) diag.List {
	var list diag.List
	var d *diag.Diagnostic
	var thrown *lang.Thrown
	switch {
	case errors.As(err, &list):
		return list
	case errors.As(err, &d):
		return diag.List{d}
	case errors.As(err, &thrown):
		return diag.List{{Msg: thrown.Message, Pos: thrown.Pos}}
	}
	return diag.List{{Msg: err.Error()}}
}

// printValue writes a payload as indented JSON.
func (a commands) printValue(v value.Value) error {
	data, err := v.AppendJSON(nil)
	if err != nil {
		return &app.ExitError{Code: app.ExitFindings, Err: fmt.Errorf("the result is not JSON: %w", err)}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return err
	}
	return a.Print(b.String() + "\n")
}

func callCommand(a commands) *cobra.Command {
	s := settings.New()
	var p payloadFlag
	var profiles profiles
	cmd := &cobra.Command{
		Use:     "call FILE... [NODE] [PATH]",
		Short:   "Send a payload to a node",
		Long:    callLong,
		Example: callExample,

		ValidArgsFunction: completeFilesAndNode,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	p.addFlags(flags)
	s.AddDocumentFlags(cmd, settings.AllowExec)
	profiles.addFlags(flags)
	flags.Lookup(settings.FromSpecs).Usage = "read more specs from `FILE`; may be repeated"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, path := pathOfRequest(args)
		name, err := a.resolve(cmd, s, args)
		if err != nil {
			return err
		}
		if err := checkPlugins(cmd.CommandPath(), s); err != nil {
			return err
		}
		r, err := newReading(cmd.CommandPath(), s, a.App)
		if err != nil {
			return err
		}
		in, err := p.read(cmd.CommandPath(), a.Stdin)
		if err != nil {
			return err
		}
		to := callee{name: name, request: path != ""}
		if to.request {
			if in, err = withPath(cmd.CommandPath(), in, path); err != nil {
				return err
			}
		}
		ctx := cmd.Context()
		if p.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, p.timeout, overtime(p.timeout))
			defer cancel()
		}
		return profiles.during(func() error { return a.call(ctx, cmd.CommandPath(), r, s, to, in, a.printValue) })
	}
	return cmd
}

// An overtime is the end of the time of a call, and counts as any other deadline.
type overtime time.Duration

func (o overtime) Error() string {
	return fmt.Sprintf("the %s of --timeout are over", time.Duration(o))
}

// Is says so to [errors.Is].
func (overtime) Is(target error) bool { return target == context.DeadlineExceeded }

// A callee is what call sends a payload to.
type callee struct {
	name    []string // of a node; none is the only trigger
	request bool     // the payload is a request, whatever the node gets
}

// call sends the payload to a node, and prints the answer.
func (a commands) call(ctx context.Context, command string, r *reading, s *settings.Settings, callee callee, in value.Value, print func(value.Value) error) (err error) {
	engine, src, err := a.untriggered(ctx, r, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Shutdown(context.WithoutCancel(ctx))) }()
	outline, _ := engine.Outline(src.source()) // findings were shown
	to, err := a.called(command, engine.Status().Nodes, outline, callee, src.elsewhere(s.Namespace))
	if err != nil {
		return err
	}
	if callee.request || getsRequests(outline, s.Namespace, to) {
		if in, err = a.asRequest(command, to, callee, in); err != nil {
			return err
		}
	}
	out, ok, err := engine.Run(ctx, to, in)
	switch {
	case err != nil:
		return &app.ExitError{Code: app.ExitFindings, Err: err}
	case !ok:
		a.Talk("no response: the node did not answer\n")
		return nil
	}
	if err := print(out); err != nil {
		return err
	}
	if err := envelope.Judge(node.Response{Payload: out}); err != nil {
		return &app.ExitError{Code: app.ExitFindings, Err: fmt.Errorf("the process counts as failed: %w", err)}
	}
	return nil
}

// untriggered returns an engine that serves the documents, but starts nothing on its own,
// and logs warnings on standard error. The caller shuts it down.
func (a commands) untriggered(ctx context.Context, r *reading, s *settings.Settings) (*uniflow.Engine, *sources, error) {
	src, list, err := r.read()
	if err != nil {
		return nil, nil, err
	}
	found, err := a.findings(ctx, src, s, true)
	if err != nil {
		return nil, nil, err
	}
	list.Append(found)
	list.Sort()
	if err := a.showFindings(list, src); err != nil {
		return nil, nil, err
	}
	kinds := a.kinds(s.Language)
	for i, def := range kinds {
		kinds[i] = passive(def)
	}
	engine, err := uniflow.New(uniflow.Options{
		Kinds: kinds, Namespace: s.Namespace, Programs: a.programs(s),
		Log: slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, nil, err
	}
	if list, err := engine.Apply(ctx, src.source()); err != nil || list.HasErrors() {
		return nil, nil, errors.Join(err, list.Err(), engine.Shutdown(context.WithoutCancel(ctx)))
	}
	return engine, src, nil
}

// passive returns a kind whose nodes start nothing on their own: a trigger passes its
// payload on as if it had come from outside.
func passive(def *node.Def) *node.Def {
	if !def.Starts() {
		return def
	}
	made := *def
	made.In = []node.Port{{Name: "in", Doc: "A payload as if from outside."}}
	made.New = func(*node.Init) (node.Node, error) { return passer{}, nil }
	return &made
}

// A passer sends each payload on the first out-port.
type passer struct{}

func (passer) Receive(_ node.Process, pkt node.Packet) node.Result { return node.Send(0, pkt.Payload) }

// called returns the name of the node to send to: the named one, or the only trigger, or the only
// one that gives requests. elsewhere is the hint if there are no nodes.
func (a commands) called(command string, nodes []node.Ref, outline uniflow.Outline, callee callee, elsewhere string) (string, error) {
	triggers, name, what := make(map[string]bool), callee.name, "trigger"
	for _, def := range a.kinds("") {
		triggers[def.Kind] = def.Starts() && !def.Role.Has(node.Tests)
	}
	if callee.request {
		clear(triggers)
		for i := range outline.Vertices {
			if v := &outline.Vertices[i]; v.Gives(node.GivesRequest) {
				triggers[v.Ref.Kind] = true
			}
		}
		what = "listener"
	}
	var names, starts []string
	for _, n := range nodes {
		if n.Name == "" {
			continue
		}
		names = append(names, n.Name)
		if triggers[n.Kind] {
			starts = append(starts, n.Name)
		}
	}
	hint := "the nodes are: " + strings.Join(names[:min(len(names), 20)], ", ")
	if len(nodes) == 0 {
		hint = elsewhere
	}
	switch {
	case len(name) == 0 && len(starts) == 1:
		return starts[0], nil
	case len(name) == 0:
		return "", app.Usagef(command, hint, "which node? There are %s", show.Count(int64(len(starts)), what))
	case slices.Contains(names, name[0]):
		return name[0], nil
	}
	if near := app.DidYouMean(name[0], names, ""); near != "" {
		hint = near
	}
	if callee.request && strings.ToUpper(name[0]) == name[0] {
		hint = fmt.Sprintf(`a method is a part of --input: '{"method": %q}'`, name[0])
	}
	return "", app.Usagef(command, hint, "there is no node %q", name[0])
}
