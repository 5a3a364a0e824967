// Package debugger is the command uniflow debug: breakpoints in a running program, and the processes that
// are held there, in a terminal or from a script.
//
// The package must not know how processes are held: the program does it.
package debugger

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

const long = `Debug holds processes of a running program where you say, while others run, and lets them go on: as they
are, with another payload, or with another result. ADDRESS is that of the admin server, see start
--admin. It needs the token of the program, or the code of the address that start --console prints.

Commands are read from the terminal, or from a pipe:

  break NODE [in|out|out[2]|error|answer] [if CEL] [log TEXT]
                       hold the processes that come to a node, before what it sends, or before
                       its answer; the condition is over the payload, such as body.count > 9.
                       NODE * is all nodes: break * error holds what fails. With a text nothing
                       is held, and the text is printed, such as: log came ${self.body.count}
  breakpoints          list them, with how often each was hit
  delete N             remove one
  wait                 until a process is held
  held                 list those that are held
  use N                take another one
  print                what is here, and who waits for the answer
  continue [JSON]      go on, with another payload
  into, over, out [JSON]
                       go on to the next point, to the answer, or to the next point after it
  answer JSON, fail TEXT, drop
                       in place of what the node does
  quit                 end: all processes go on

A letter is enough where it is clear. When the command ends, all that it has held goes on.`

const example = `  uniflow debug 127.0.0.1:9000 --code 4QK7ZB3UEXN2OLY5RWTJ6DMCHA
  echo 'break price in if n > 9
  wait
  continue' | uniflow debug 127.0.0.1:9000`

// pace is how often the program is asked what it holds.
const pace = 200 * time.Millisecond

// stepTime is how long a step is waited for; it may take as long as what the node waits for.
const stepTime = 2 * time.Second

// Command is the command debug.
func Command(a *app.App) *cobra.Command {
	o := settings.New()
	var code string
	cmd := &cobra.Command{
		Use: "debug [ADDRESS]", Short: "Hold processes of a running program, and let them go on", Long: long, Example: example,
		Args: app.AtMostOneArg("address"),
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&code, "code", "", "the `CODE` at the end of the address that start --console prints")
	o.AddAdminFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		address, err := o.ResolveAdmin(a, cmd, args...)
		if err != nil {
			return err
		}
		s := &session{App: a, client: &api.Client{Address: address, Token: o.AdminToken}}
		if err = s.open(cmd.Context(), code); err == nil {
			err = s.run(cmd.Context())
		}
		if err == nil || errors.Is(err, context.Canceled) {
			return nil
		}
		failure := o.AdminFailure(err)
		if refused, ok := errors.AsType[*api.StatusError](err); ok && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
			failure.Hint = "pass --code with the code that start --console has printed last, which opens one session, or set UNIFLOW_ADMIN_TOKEN"
		}
		return failure
	}
	return cmd
}

// A session is the work with one program.
type session struct {
	*app.App
	client  *api.Client
	nodes   []api.Node
	state   api.Debug
	at      uint64 // the process that commands are about; 0 for none
	told    uint64 // the last process that was announced
	message uint64 // the number of the last message that was printed

	waiting bool      // for a process that is held
	step    string    // the id of the process that makes a step; empty for none
	until   time.Time // the step is waited for
}

func (s *session) open(ctx context.Context, code string) error {
	if code != "" {
		if err := s.client.Enter(ctx, code); err != nil {
			return err
		}
	}
	if err := s.client.Get(ctx, api.Base+"nodes", &s.nodes); err != nil {
		return err
	}
	return s.look(ctx)
}

// look asks for the state, which also lets breakpoints stay.
func (s *session) look(ctx context.Context) error {
	return s.ask(ctx, http.MethodGet, api.DebugPath, nil)
}

// ask asks for something whose answer is the state.
func (s *session) ask(ctx context.Context, method, path string, body any) error {
	var state api.Debug // a new one: what JSON leaves out must not stay
	if err := s.client.Send(ctx, method, path, body, &state); err != nil {
		return err
	}
	s.state = state
	return nil
}

// errQuit ends the session.
var errQuit = errors.New("quit")

func (s *session) run(ctx context.Context) error {
	lines := make(chan string)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reader sync.WaitGroup // not waited for: the read of a terminal ends with the program
	reader.Go(func() {
		defer close(lines)
		in := bufio.NewScanner(s.Stdin)
		in.Buffer(nil, api.MaxBody)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	})
	file, _ := s.Stdin.(*os.File)
	prompt := func() {
		if file != nil && term.IsTerminal(int(file.Fd())) {
			s.Talk("> ")
		}
	}
	ask := time.NewTicker(pace)
	defer ask.Stop()
	from := lines
	prompt()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ask.C:
			if err := s.look(ctx); err != nil {
				return err
			}
			news, err := s.announce()
			if err != nil {
				return err
			}
			s.arrived()
			if !s.waiting {
				from = lines
			}
			if news && !s.waiting {
				prompt()
			}
		case line, more := <-from:
			if !more {
				return s.end(ctx)
			}
			err := s.command(ctx, strings.TrimSpace(line))
			var refused *api.StatusError
			switch {
			case errors.Is(err, errQuit):
				return s.end(ctx)
			case errors.As(err, &refused) && refused.Status != http.StatusUnauthorized && refused.Status != http.StatusForbidden:
				s.Talk("%s\n", strings.Join(nonEmpty(refused.Answer.Message, refused.Answer.Hint), "\n  hint: "))
			case err != nil:
				return err
			}
			if s.waiting {
				from = nil // until a process is held
			} else {
				prompt()
			}
		}
	}
}

func nonEmpty(texts ...string) (all []string) {
	for _, text := range texts {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// end lets all go on.
func (s *session) end(ctx context.Context) error {
	return s.ask(context.WithoutCancel(ctx), http.MethodPut, api.DebugPath+"/breakpoints", api.Breakpoints{List: []api.Breakpoint{}})
}

// current returns the process that commands are about: the one that was chosen, or the first. It is nil if none is held.
func (s *session) current() *api.Held {
	for i := range s.state.Held {
		if s.state.Held[i].ID == s.at {
			return &s.state.Held[i]
		}
	}
	if len(s.state.Held) == 0 {
		return nil
	}
	s.at = s.state.Held[0].ID
	return &s.state.Held[0]
}

// arrived ends a wait: a process is held, or the step that was made ends nowhere.
func (s *session) arrived() {
	if s.step == "" {
		s.waiting = s.waiting && s.current() == nil
		return
	}
	for _, h := range s.state.Held {
		if h.Process == s.step {
			s.at, s.waiting, s.step = h.ID, false, ""
			return
		}
	}
	if time.Now().After(s.until) {
		s.Talk("the process has not come to another point\n")
		s.waiting, s.step = false, ""
	}
}

// announce prints the messages since the last time, and the processes that are held.
func (s *session) announce() (news bool, err error) {
	for _, m := range s.state.Messages {
		if m.Number <= s.message {
			continue
		}
		s.message, news = m.Number, true
		if err := s.Print(show.Printable(fmt.Sprintf("%s %s: %s", m.Time.Format("15:04:05.000"), nameOf(m.Node), m.Text)) + "\n"); err != nil {
			return news, err
		}
	}
	for i := range s.state.Held {
		if h := &s.state.Held[i]; h.ID > s.told {
			s.told, news = h.ID, true
			if err := s.print(h); err != nil {
				return news, err
			}
		}
	}
	return news, nil
}

func (s *session) print(h *api.Held) error {
	var b strings.Builder
	port := &h.Port
	if h.Point == "answer" {
		port = nil
	}
	fmt.Fprintf(&b, "%d: %s held at %s, goes on in %.0f s\n", h.ID, show.Printable(nameOf(h.Node)), placeOf(h.Point, port), h.Left)
	var callers []string
	for _, n := range h.Callers {
		callers = append(callers, show.Printable(nameOf(n)))
	}
	fmt.Fprintf(&b, "  answers to %s; process %s\n", strings.Join(callers, " < "), h.Process)
	payload := func(what string, p api.Payload) {
		text := p.Text
		switch {
		case p.Kind == "none":
			text = "no payload"
		case p.Cut:
			text += "…"
		}
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = show.Printable(lines[i])
		}
		fmt.Fprintf(&b, "  %s: %s\n", what, strings.Join(lines, "\n  "))
	}
	switch {
	case h.Answer != nil:
		payload("answer", *h.Answer)
	case len(h.Sends) > 0:
		for _, p := range h.Sends {
			payload(placeOf("out", &p.Port), p.Payload)
		}
	default:
		payload("payload", h.Came)
	}
	return s.Print(b.String())
}

// placeOf is a point as people write it.
func placeOf(point string, port *int) string {
	switch {
	case port == nil:
		return point
	case point == "out" && *port < 0:
		return "error"
	}
	return fmt.Sprintf("%s[%d]", point, *port)
}

func nameOf(n api.ProcessNode) string {
	if n.Name == "" {
		return n.Kind
	}
	return n.Name
}

// words are the commands, with what a letter stands for.
var words = map[string]string{
	"b": "break", "c": "continue", "i": "into", "s": "into", "o": "over", "n": "over", "u": "out", "p": "print", "w": "wait", "q": "quit", "h": "help", "?": "help",
}

func (s *session) command(ctx context.Context, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	if full, ok := words[word]; ok {
		word = full
	}
	switch word {
	case "", "#":
		return nil
	case "help":
		s.Talk("%s\n", long[strings.Index(long, "  break"):])
		return nil
	case "quit", "exit":
		return errQuit
	case "break":
		return s.add(ctx, rest)
	case "breakpoints":
		return s.list()
	case "delete":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 1 || n > len(s.state.Breakpoints) {
			s.Talk("delete: want a number of breakpoints, 1 to %d\n", len(s.state.Breakpoints))
			return nil
		}
		return s.set(ctx, append(s.state.Breakpoints[:n-1:n-1], s.state.Breakpoints[n:]...))
	case "wait":
		s.waiting = s.current() == nil
		return nil
	case "held":
		for i := range s.state.Held {
			if err := s.print(&s.state.Held[i]); err != nil {
				return err
			}
		}
		return nil
	case "use":
		n, err := strconv.ParseUint(rest, 10, 64)
		if s.at = n; err != nil || s.current() == nil || s.current().ID != n {
			s.Talk("use: want the number of a process that is held\n")
		}
		return nil
	case "print", "continue", "into", "over", "out", "answer", "fail", "drop":
		h := s.current()
		if h == nil {
			s.Talk("no process is held; wait waits for one\n")
			return nil
		}
		if word == "print" {
			return s.print(h)
		}
		m := api.Move{Do: word}
		if rest != "" {
			m.Text = &rest
		}
		s.at = 0
		if word == "into" || word == "over" || word == "out" {
			s.waiting, s.step, s.until = true, h.Process, time.Now().Add(stepTime)
		}
		if err := s.ask(ctx, http.MethodPost, fmt.Sprintf("%s/held/%d", api.DebugPath, h.ID), m); err != nil {
			return err
		}
		_, err := s.announce()
		s.arrived()
		return err
	}
	s.Talk("there is no command %q; help lists them\n", word)
	return nil
}

// add adds a breakpoint: NODE [POINT] [if CEL] [log TEXT].
func (s *session) add(ctx context.Context, text string) error {
	text, log, _ := strings.Cut(text, " log ")
	place, when, _ := strings.Cut(text, " if ")
	name, point := strings.TrimSpace(place), "in"
	node, ok := s.find(name)
	if at := strings.LastIndexByte(name, ' '); !ok && at > 0 { // names may have spaces
		point = name[at+1:]
		name = strings.TrimSpace(name[:at])
		node, ok = s.find(name)
	}
	if !ok {
		s.Talk("break: there is no node %q\n", name)
		return nil
	}
	b, err := api.BreakpointAt(node.ID, point)
	if err != nil {
		s.Talk("break: %v\n", err)
		return nil
	}
	b.When, b.Log = strings.TrimSpace(when), strings.TrimSpace(log)
	return s.set(ctx, append(s.state.Breakpoints, b))
}

// everyNode is the name that stands for all nodes.
const everyNode = "*"

func (s *session) find(name string) (api.Node, bool) {
	if name == everyNode {
		return api.Node{}, true
	}
	for _, n := range s.nodes {
		if name != "" && (n.Name == name || n.ID == name) {
			return n, true
		}
	}
	return api.Node{}, false
}

func (s *session) set(ctx context.Context, list []api.Breakpoint) error {
	if err := s.ask(ctx, http.MethodPut, api.DebugPath+"/breakpoints", api.Breakpoints{List: list}); err != nil {
		return err
	}
	return s.list()
}

func (s *session) list() error {
	if len(s.state.Breakpoints) == 0 {
		return s.Print("no breakpoints\n")
	}
	for i, b := range s.state.Breakpoints {
		name := cmp.Or(b.Node, everyNode)
		for _, n := range s.nodes {
			if n.ID == b.Node && n.Name != "" {
				name = n.Name
			}
		}
		line := fmt.Sprintf("%d: %s %s", i+1, name, placeOf(b.Point, b.Port))
		if b.When != "" {
			line += " if " + b.When
		}
		if b.Log != "" {
			line += " log " + b.Log
		}
		if line += fmt.Sprintf(", hit %d times", b.Hits); b.Faulty != "" {
			line += ": " + b.Faulty
		}
		if err := s.Print(show.Printable(line) + "\n"); err != nil {
			return err
		}
	}
	return nil
}
