package dap

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-dap"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/value"
)

// pace is how often the program is asked what it holds.
const pace = 200 * time.Millisecond

// idle is the thread that stands for the processes that are not held.
const idle = 1

// A session is an editor that debugs a program.
type session struct {
	executable string // for a program that is launched
	ctx        context.Context
	cancel     context.CancelFunc
	work       sync.WaitGroup

	mu      sync.Mutex // of all below
	out     io.Writer
	seq     int
	client  *api.Client // nil until it is attached
	program *launched   // nil for one that runs by itself
	folder  string      // that the files of nodes are relative to
	nodes   []api.Node
	lines   map[string][]api.Breakpoint // by file of the editor
	names   []api.Breakpoint
	filters []api.Breakpoint // of exceptions
	pause   []api.Breakpoint // the next packet anywhere; none, or one
	told    uint64           // the number of the last message that the editor has
	held    map[int]*thread  // by thread
	threads map[string]int   // by process
	refs    []place          // of variables; the first has reference 1
}

// A thread is a process that is held.
type thread struct {
	api.Held
	payload value.Value // that it goes on with
	edited  bool
}

// A place is a value that the editor shows the contents of.
type place struct {
	thread int
	path   []string // from the payload
	value  value.Value
}

func newSession(ctx context.Context, executable string, out io.Writer) *session {
	ctx, cancel := context.WithCancel(ctx)
	return &session{executable: executable, ctx: ctx, cancel: cancel, out: out, lines: make(map[string][]api.Breakpoint), held: make(map[int]*thread), threads: make(map[string]int)}
}

// close lets all processes go on, and ends the program that was launched.
func (s *session) close() {
	s.cancel()
	s.mu.Lock()
	program := s.program
	s.mu.Unlock()
	if program != nil {
		program.stop()
	}
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && program == nil {
		s.lines, s.names, s.filters, s.pause = nil, nil, nil, nil
		_, _ = s.set(context.WithoutCancel(s.ctx)) // they go on after some seconds anyway
	}
}

// read handles what the editor asks for until it disconnects.
func (s *session) read(in io.Reader) error {
	buffered := bufio.NewReader(in)
	for {
		message, err := dap.ReadProtocolMessage(buffered)
		if field, ok := errors.AsType[*dap.DecodeProtocolMessageFieldError](err); ok {
			s.mu.Lock()
			s.fail(dap.Request{ProtocolMessage: dap.ProtocolMessage{Seq: field.Seq}, Command: field.FieldValue}, errors.New("this is not supported"))
			s.mu.Unlock()
			continue
		}
		if err != nil {
			return err
		}
		request, ok := message.(dap.RequestMessage)
		if !ok {
			continue
		}
		switch request.(type) {
		case *dap.LaunchRequest: // which waits for the program
			s.work.Go(func() { s.respond(request) })
		case *dap.DisconnectRequest:
			s.respond(request)
			return nil
		default:
			s.respond(request)
		}
	}
}

// respond handles a request and sends the answer.
func (s *session) respond(request dap.RequestMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := s.handle(request)
	if err != nil {
		s.fail(*request.GetRequest(), err)
		return
	}
	s.answer(*request.GetRequest(), body)
	switch request.(type) {
	case *dap.AttachRequest, *dap.LaunchRequest:
		s.work.Go(s.watch)
		s.send(&dap.InitializedEvent{Event: s.event("initialized")})
	}
}

// response is what all answers are sent as: the types of the library differ in their bodies alone.
type response struct {
	dap.Response
	Body any `json:"body,omitempty"`
}

// answer sends an answer. The lock is held.
func (s *session) answer(to dap.Request, body any) {
	r := response{Body: body}
	r.Type, r.Command, r.RequestSeq, r.Success = "response", to.Command, to.Seq, true
	s.send(&r)
}

func (s *session) fail(to dap.Request, err error) {
	text := err.Error()
	if refused, ok := errors.AsType[*api.StatusError](err); ok {
		text = refused.Answer.Message
		if refused.Answer.Hint != "" {
			text += " (" + refused.Answer.Hint + ")"
		}
	}
	r := response{Body: dap.ErrorResponseBody{Error: &dap.ErrorMessage{Id: 1, Format: text, ShowUser: true}}}
	r.Type, r.Command, r.RequestSeq, r.Message = "response", to.Command, to.Seq, text
	s.send(&r)
}

func (s *session) send(message any) {
	s.seq++
	switch m := message.(type) {
	case *response:
		m.Seq = s.seq
	case dap.EventMessage:
		m.GetEvent().Seq = s.seq
	}
	data, err := json.Marshal(message)
	if err == nil {
		err = dap.WriteBaseMessage(s.out, data)
	}
	if err != nil {
		s.cancel() // the editor has left
	}
}

func (s *session) event(name string) dap.Event {
	return dap.Event{ProtocolMessage: dap.ProtocolMessage{Type: "event"}, Event: name}
}

// tell sends an event.
func (s *session) tell(event dap.EventMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(event)
}

var errDetached = errors.New("not attached to a program")

// handle does what the editor asks for, and returns the body of the answer. The lock is held.
func (s *session) handle(message dap.RequestMessage) (body any, err error) {
	switch r := message.(type) {
	case *dap.InitializeRequest:
		return dap.Capabilities{
			SupportsConfigurationDoneRequest: true, SupportsFunctionBreakpoints: true, SupportsConditionalBreakpoints: true,
			SupportsHitConditionalBreakpoints: true, SupportsSetVariable: true, SupportsLogPoints: true, SupportsExceptionInfoRequest: true, SupportsExceptionFilterOptions: true,
			ExceptionBreakpointFilters: []dap.ExceptionBreakpointsFilter{{
				Filter: failures, Label: "Failures of nodes", Description: "Hold a process when a node fails, before the failure goes on", SupportsCondition: true,
			}},
		}, nil
	case *dap.LaunchRequest:
		return nil, s.launch(r.Arguments)
	case *dap.AttachRequest:
		return nil, s.attach(r.Arguments)
	case *dap.DisconnectRequest, *dap.ConfigurationDoneRequest:
		return nil, nil
	case *dap.ThreadsRequest:
		return s.listThreads(), nil
	}
	if s.client == nil {
		return nil, errDetached
	}
	switch r := message.(type) {
	case *dap.SetBreakpointsRequest:
		return s.setLines(r.Arguments)
	case *dap.SetFunctionBreakpointsRequest:
		return s.setNames(r.Arguments.Breakpoints)
	case *dap.SetExceptionBreakpointsRequest:
		return nil, s.setFilters(r.Arguments)
	case *dap.PauseRequest:
		return nil, s.hold(r.Arguments.ThreadId)
	case *dap.StackTraceRequest:
		return s.stack(r.Arguments.ThreadId)
	case *dap.ScopesRequest:
		return s.scopes(r.Arguments.FrameId)
	case *dap.ExceptionInfoRequest:
		return s.exceptionInfo(r.Arguments.ThreadId)
	case *dap.VariablesRequest:
		return s.variables(r.Arguments.VariablesReference)
	case *dap.SetVariableRequest:
		return s.setVariable(r.Arguments)
	case *dap.EvaluateRequest:
		return s.evaluate(r.Arguments)
	case *dap.ContinueRequest:
		return dap.ContinueResponseBody{AllThreadsContinued: false}, s.move(r.Arguments.ThreadId, "continue")
	case *dap.NextRequest:
		return nil, s.move(r.Arguments.ThreadId, "over")
	case *dap.StepInRequest:
		return nil, s.move(r.Arguments.ThreadId, "into")
	case *dap.StepOutRequest:
		return nil, s.move(r.Arguments.ThreadId, "out")
	}
	return nil, errors.New("this is not supported")
}

// free returns why no program can be attached to. The lock is held.
func (s *session) free() error {
	if s.client != nil || s.program != nil {
		return errors.New("there is a program already")
	}
	return s.ctx.Err()
}

func (s *session) attach(arguments json.RawMessage) error {
	var to struct{ Address, Token, Code, Cwd string }
	if err := decode(arguments, &to); err != nil {
		return err
	}
	if err := s.free(); err != nil {
		return err
	}
	if to.Address == "" {
		return errors.New(`attach needs "address", as start --admin names it: 127.0.0.1:9000`)
	}
	client := &api.Client{Address: to.Address, Token: to.Token}
	if to.Code != "" {
		if err := client.Enter(s.ctx, to.Code); err != nil {
			return err
		}
	}
	return s.attachTo(client, to.Cwd)
}

// decode reads the arguments of a request, which may be left out.
func decode(arguments json.RawMessage, into any) error {
	if len(arguments) == 0 {
		return nil
	}
	return json.Unmarshal(arguments, into)
}

func (s *session) attachTo(client *api.Client, folder string) error {
	var state api.Debug
	if err := client.Get(s.ctx, api.DebugPath, &state); err != nil {
		return err
	}
	s.client, s.folder = client, folder
	if err := s.readNodes(); err != nil {
		s.client = nil
		return err
	}
	return nil
}

// readNodes reads the nodes that the program serves: others after a reload.
func (s *session) readNodes() error {
	var nodes []api.Node
	err := s.client.Get(s.ctx, api.Base+"nodes", &nodes)
	if err == nil {
		s.nodes = nodes
	}
	return err
}

// watch asks for what the program holds until the session ends.
func (s *session) watch() {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		var state api.Debug
		err := s.client.Get(s.ctx, api.DebugPath, &state)
		if err == nil {
			s.take(state)
		}
		s.mu.Unlock()
		if err != nil && s.program != nil {
			select {
			case <-s.program.ended: // which is told
				return
			default:
				continue
			}
		}
		if err != nil && s.ctx.Err() == nil {
			s.tell(&dap.OutputEvent{Event: s.event("output"), Body: dap.OutputEventBody{Category: "important", Output: fmt.Sprintf("the program does not answer: %v\n", err)}})
			s.tell(&dap.TerminatedEvent{Event: s.event("terminated")})
			return
		}
	}
}

// take tells the editor which processes are held since the last time, and which have gone on.
func (s *session) take(state api.Debug) {
	for _, m := range state.Messages {
		if m.Number > s.told {
			s.told = m.Number
			s.send(&dap.OutputEvent{Event: s.event("output"), Body: dap.OutputEventBody{Category: "console", Output: m.Node.Name + ": " + m.Text + "\n"}})
		}
	}
	paused := len(s.pause) > 0 && !slices.ContainsFunc(state.Breakpoints, func(b api.Breakpoint) bool { return b.Once })
	if paused {
		s.pause = nil
	}
	there := make(map[int]bool)
	for _, h := range state.Held {
		id := s.threads[h.Process]
		if id == 0 {
			id = idle + 1 + len(s.threads)
			s.threads[h.Process] = id
		}
		there[id] = true
		if t := s.held[id]; t != nil && t.ID == h.ID {
			continue
		}
		t := &thread{Held: h}
		t.payload, _ = value.ParseJSON([]byte(t.shown().Text)) // null for what is cut
		s.held[id] = t
		reason := "breakpoint"
		switch {
		case h.Step:
			reason = "step"
		case paused:
			reason = "pause"
		case h.Point == "out" && h.Port < 0:
			reason = "exception"
		}
		s.send(&dap.StoppedEvent{Event: s.event("stopped"), Body: dap.StoppedEventBody{Reason: reason, ThreadId: id, Description: "held at " + h.Point}})
	}
	for id := range s.held {
		if !there[id] {
			delete(s.held, id)
			s.send(&dap.ContinuedEvent{Event: s.event("continued"), Body: dap.ContinuedEventBody{ThreadId: id}})
		}
	}
}

// shown is the payload that the process goes on with.
func (t *thread) shown() api.Payload {
	switch {
	case t.Answer != nil:
		return *t.Answer
	case len(t.Sends) > 0:
		return t.Sends[0].Payload
	}
	return t.Came
}

func (s *session) listThreads() dap.ThreadsResponseBody {
	body := dap.ThreadsResponseBody{Threads: []dap.Thread{{Id: idle, Name: "processes that run"}}}
	for id, t := range s.held {
		body.Threads = append(body.Threads, dap.Thread{Id: id, Name: "process " + t.Process})
	}
	slices.SortFunc(body.Threads, func(a, b dap.Thread) int { return a.Id - b.Id })
	return body
}

// set sets all breakpoints.
func (s *session) set(ctx context.Context) (state api.Debug, err error) {
	all := slices.Concat(s.names, s.filters, s.pause)
	for _, list := range s.lines {
		all = append(all, list...)
	}
	if all == nil {
		all = []api.Breakpoint{}
	}
	err = s.client.Send(ctx, http.MethodPut, api.DebugPath+"/breakpoints", api.Breakpoints{List: all}, &state)
	return state, err
}

// setLines sets the breakpoints of one file: each at the node whose spec has the line.
func (s *session) setLines(to dap.SetBreakpointsArguments) (body dap.SetBreakpointsResponseBody, err error) {
	if err := s.readNodes(); err != nil {
		return body, err
	}
	before := s.lines[to.Source.Path]
	var set []api.Breakpoint
	for _, b := range to.Breakpoints {
		node := s.nodeAt(to.Source.Path, b.Line)
		if node == nil {
			body.Breakpoints = append(body.Breakpoints, dap.Breakpoint{Line: b.Line, Message: "no node that the program serves is here"})
			continue
		}
		point, err := breakpoint(node.ID, "in", b.Condition, b.HitCondition)
		if err != nil {
			body.Breakpoints = append(body.Breakpoints, dap.Breakpoint{Line: b.Line, Message: err.Error()})
			continue
		}
		point.Log = logText(b.LogMessage)
		set = append(set, point)
		body.Breakpoints = append(body.Breakpoints, dap.Breakpoint{Id: len(set), Verified: true, Line: node.Line, Source: s.source(node)})
	}
	s.lines[to.Source.Path] = set
	if _, err = s.set(s.ctx); err != nil {
		s.lines[to.Source.Path] = before
	}
	return body, err
}

// nodeAt returns the node that begins at a line, or the last before it. A file of the editor is one of the program's if
// its path ends with that.
func (s *session) nodeAt(path string, line int) (found *api.Node) {
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.File == "" || n.Line > line || found != nil && n.Line < found.Line {
			continue
		}
		if path == n.File || strings.HasSuffix(filepath.ToSlash(path), "/"+strings.TrimPrefix(filepath.ToSlash(n.File), "./")) {
			found = n
		}
	}
	return found
}

func (s *session) source(n *api.Node) *dap.Source {
	path := n.File
	if !filepath.IsAbs(path) && s.folder != "" {
		path = filepath.Join(s.folder, path)
	}
	return &dap.Source{Name: filepath.Base(path), Path: path}
}

// setNames sets the breakpoints that are named: NODE, or NODE:POINT.
func (s *session) setNames(named []dap.FunctionBreakpoint) (body dap.SetFunctionBreakpointsResponseBody, err error) {
	if err := s.readNodes(); err != nil {
		return body, err
	}
	before := s.names
	s.names = nil
	for _, b := range named {
		name, point, _ := strings.Cut(b.Name, ":")
		at := slices.IndexFunc(s.nodes, func(n api.Node) bool { return n.Name == name })
		if at < 0 {
			body.Breakpoints = append(body.Breakpoints, dap.Breakpoint{Message: fmt.Sprintf("there is no node %q", name)})
			continue
		}
		set, err := breakpoint(s.nodes[at].ID, point, b.Condition, b.HitCondition)
		if err != nil {
			body.Breakpoints = append(body.Breakpoints, dap.Breakpoint{Message: err.Error()})
			continue
		}
		s.names = append(s.names, set)
		body.Breakpoints = append(body.Breakpoints, dap.Breakpoint{Id: len(s.names), Verified: true, Line: s.nodes[at].Line, Source: s.source(&s.nodes[at])})
	}
	if _, err = s.set(s.ctx); err != nil {
		s.names = before
	}
	return body, err
}

// breakpoint makes one of a point such as in, out[2], error or answer, and of a number of hits such as 3 or >= 3.
func breakpoint(node, point, when, hits string) (api.Breakpoint, error) {
	b, err := api.BreakpointAt(node, point)
	if err != nil {
		return b, err
	}
	b.When = when
	if hits = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(hits), ">=")); hits != "" {
		n, err := strconv.Atoi(hits)
		if err != nil || n < 1 {
			return b, fmt.Errorf("hits %q: want a number, such as 3: from the third on", hits)
		}
		b.After = n - 1
	}
	return b, nil
}

// logText is the text of a log point, whose expressions the protocol has in braces.
func logText(message string) string {
	return strings.ReplaceAll(strings.ReplaceAll(message, "{", "${"), "$${", "${")
}

// failures is the filter of exceptions that holds what fails.
const failures = "failures"

// setFilters holds processes when a node fails.
func (s *session) setFilters(to dap.SetExceptionBreakpointsArguments) error {
	before := s.filters
	s.filters = nil
	failed := func(when string) {
		s.filters = append(s.filters, api.Breakpoint{Point: "out", Port: new(-1), When: when})
	}
	for _, name := range to.Filters {
		if name == failures {
			failed("")
		}
	}
	for _, o := range to.FilterOptions {
		if o.FilterId == failures {
			failed(o.Condition)
		}
	}
	_, err := s.set(s.ctx)
	if err != nil {
		s.filters = before
	}
	return err
}

// hold holds the next process that comes to a node: the threads of others are held already.
func (s *session) hold(thread int) error {
	if thread != idle {
		return errors.New("this process is held")
	}
	s.pause = []api.Breakpoint{{Point: "in", Once: true}}
	_, err := s.set(s.ctx)
	if err != nil {
		s.pause = nil
	}
	return err
}

func (s *session) thread(id int) (*thread, error) {
	t := s.held[id]
	if t == nil {
		return nil, errors.New("this process is not held")
	}
	return t, nil
}

// stack has the node at which a process is held, and those that wait for the answer. A frame's id has its thread.
func (s *session) stack(id int) (body dap.StackTraceResponseBody, err error) {
	t, err := s.thread(id)
	if err != nil {
		return body, err
	}
	nodes := append([]api.ProcessNode{t.Node}, t.Callers...)
	for i, n := range nodes {
		frame := dap.StackFrame{Id: id*maxFrames + i, Name: n.Name}
		if n.Name == "" {
			frame.Name = n.Kind
		}
		if i == 0 {
			frame.Name += " " + t.Point
		}
		if at := slices.IndexFunc(s.nodes, func(other api.Node) bool { return other.ID == n.ID }); at >= 0 && s.nodes[at].File != "" {
			frame.Source, frame.Line, frame.Column = s.source(&s.nodes[at]), s.nodes[at].Line, s.nodes[at].Col
		}
		body.StackFrames = append(body.StackFrames, frame)
	}
	body.StackFrames = body.StackFrames[:min(len(body.StackFrames), maxFrames)]
	body.TotalFrames = len(body.StackFrames)
	return body, nil
}

// maxFrames is how many frames a thread has at most.
const maxFrames = 1000

// exceptionInfo says why a node fails.
func (s *session) exceptionInfo(id int) (body dap.ExceptionInfoResponseBody, err error) {
	t, err := s.thread(id)
	if err != nil || t.Point != "out" || t.Port >= 0 {
		return body, cmp.Or(err, errors.New("this process has not failed"))
	}
	return dap.ExceptionInfoResponseBody{ExceptionId: t.Node.Name + " fails", Description: t.shown().Text, BreakMode: "always"}, nil
}

func (s *session) scopes(frame int) (body dap.ScopesResponseBody, err error) {
	id := frame / maxFrames
	t, err := s.thread(id)
	if err != nil {
		return body, err
	}
	body.Scopes = []dap.Scope{}
	if frame%maxFrames == 0 {
		name := "Payload"
		if t.Answer != nil {
			name = "Answer"
		}
		root := value.Map(value.Field{Name: payloadName, Value: t.payload})
		body.Scopes = append(body.Scopes, dap.Scope{Name: name, VariablesReference: s.refer(place{thread: id, value: root})})
	}
	return body, nil
}

// payloadName is the variable that has the payload.
const payloadName = "payload"

func (s *session) refer(p place) int {
	if p.value.Len() == 0 || p.value.Kind() != value.KindMap && p.value.Kind() != value.KindList {
		return 0
	}
	s.refs = append(s.refs, p)
	return len(s.refs)
}

func (s *session) variables(ref int) (body dap.VariablesResponseBody, err error) {
	if ref < 1 || ref > len(s.refs) {
		return body, errors.New("there is no such variable")
	}
	p := s.refs[ref-1]
	body.Variables = []dap.Variable{}
	add := func(name string, v value.Value) {
		body.Variables = append(body.Variables, dap.Variable{
			Name: name, Value: v.String(), Type: v.Kind().String(),
			VariablesReference: s.refer(place{p.thread, append(slices.Clone(p.path), name), v}),
		})
	}
	if p.value.Kind() == value.KindList {
		for i, e := range p.value.Elems() {
			add(strconv.Itoa(i), e)
		}
		return body, nil
	}
	for name, v := range p.value.Fields() {
		add(name, v)
	}
	return body, nil
}

// setVariable changes a part of the payload that the process goes on with.
func (s *session) setVariable(to dap.SetVariableArguments) (body dap.SetVariableResponseBody, err error) {
	if to.VariablesReference < 1 || to.VariablesReference > len(s.refs) {
		return body, errors.New("there is no such variable")
	}
	p := s.refs[to.VariablesReference-1]
	t, err := s.thread(p.thread)
	if err != nil {
		return body, err
	}
	v, err := value.ParseJSON([]byte(to.Value))
	if err != nil {
		return body, fmt.Errorf("%w; the value must be JSON: write a text in double quotes", err)
	}
	path := append(slices.Clone(p.path), to.Name)
	t.payload, t.edited = replaced(t.payload, path[1:], v), true
	return dap.SetVariableResponseBody{Value: v.String(), Type: v.Kind().String(), VariablesReference: s.refer(place{p.thread, path, v})}, nil
}

// replaced returns a value with another at a path.
func replaced(in value.Value, path []string, v value.Value) value.Value {
	if len(path) == 0 {
		return v
	}
	if in.Kind() == value.KindList {
		var elems []value.Value
		for i, e := range in.Elems() {
			if strconv.Itoa(i) == path[0] {
				e = replaced(e, path[1:], v)
			}
			elems = append(elems, e)
		}
		return value.List(elems...)
	}
	was, _ := in.Get(path[0])
	return in.With(path[0], replaced(was, path[1:], v))
}

// evaluate shows a part of the payload, such as payload.body.count; or lets the process go on with a result in place of
// the node's: answer JSON, fail TEXT, drop.
func (s *session) evaluate(to dap.EvaluateArguments) (body dap.EvaluateResponseBody, err error) {
	id := to.FrameId / maxFrames
	t, err := s.thread(id)
	if err != nil {
		return body, err
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(to.Expression), " ")
	if to.Context == "repl" && (word == "answer" || word == "fail" || word == "drop") {
		m := api.Move{Do: word}
		if rest != "" {
			m.Text = &rest
		}
		return dap.EvaluateResponseBody{Result: "goes on"}, s.goOn(t, m)
	}
	v := value.Map(value.Field{Name: payloadName, Value: t.payload})
	path := strings.Split(word, ".")
	for _, name := range path {
		field, ok := v.Get(name)
		if !ok {
			return body, fmt.Errorf("there is no %q; write a part of the payload, such as payload.body, or answer JSON, fail TEXT, drop", name)
		}
		v = field
	}
	return dap.EvaluateResponseBody{Result: v.String(), Type: v.Kind().String(), VariablesReference: s.refer(place{id, path, v})}, nil
}

// move lets a process go on with a step, and with its payload as it was changed.
func (s *session) move(id int, do string) error {
	t, err := s.thread(id)
	if err != nil {
		return err
	}
	m := api.Move{Do: do}
	if t.edited {
		text, err := t.payload.AppendJSON(nil)
		if err != nil {
			return err
		}
		changed := string(text)
		m.Text = &changed
	}
	return s.goOn(t, m)
}

func (s *session) goOn(t *thread, m api.Move) error {
	var state api.Debug
	if err := s.client.Send(s.ctx, http.MethodPost, fmt.Sprintf("%s/held/%d", api.DebugPath, t.ID), m, &state); err != nil {
		return err
	}
	delete(s.held, s.threads[t.Process])
	return nil
}
