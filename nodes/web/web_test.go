package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A flow replaces a workflow in these tests.
type flow func(ctx context.Context, payload value.Value) node.Response

func reply(v value.Value) node.Response { return node.Response{Payload: v} }

func always(v value.Value) flow {
	return func(context.Context, value.Value) node.Response { return reply(v) }
}

func failing(err error) flow { return always(value.Error(err)) }

// echoBody answers with the body of the request as a body.
func echoBody(_ context.Context, payload value.Value) node.Response {
	body, _ := payload.Get("body")
	return reply(value.Map(value.Field{Name: "body", Value: body}))
}

// A source runs a flow as the engine would.
type source struct {
	flow    flow
	onError flow // what the error port leads to; nil if it has no link
	stopped atomic.Bool
}

// process is the process of the fake engine.
type process struct{ node.Process }

func (process) HasClient() bool { return true }

func (process) ID() string { return processID }

const processID = "01890a5d-ac96-774b-bcce-b302099a8057"

func (s *source) Run(ctx context.Context, r node.Result) node.Response {
	resp, _ := s.RunID(ctx, nil, r)
	return resp
}

func (s *source) Start(ctx context.Context, j node.Judge, r node.Result, done func(node.Response)) (queued bool) {
	resp, _ := s.RunID(ctx, j, r)
	done(resp)
	return false
}

func (s *source) RunID(ctx context.Context, j node.Judge, r node.Result) (resp node.Response, id string) {
	if s.stopped.Load() {
		return reply(value.Error(node.ErrStopped)), ""
	}
	for ended := false; !ended; {
		ended = true
		switch e := r.Effect(); e.Op {
		case effect.Call:
			r, ended = e.More.Then(process{}, s.flow(ctx, e.Payload)), false
		case effect.Fail:
			if resp = reply(e.Payload); s.onError != nil {
				resp = s.onError(ctx, e.Payload)
			}
		case effect.None:
			resp.None = true
		case effect.Answer:
			resp.Payload = e.Payload
		default:
			panic("unexpected operation of a listener")
		}
	}
	if j != nil && !resp.IsError() {
		_ = j(resp) // nothing depends on it
	}
	return resp, processID
}

func decodeConfig(t testing.TB, def *node.Def, config value.Value) schema.Config {
	t.Helper()
	c, found := def.Config.Decode(schema.RawOf(config))
	if err := found.Err(); err != nil {
		t.Fatalf("config %s: %v", config, err)
	}
	return c
}

// A world is the pool and the log that listeners of several generations share.
type world struct {
	t     testing.TB
	pool  node.Pool
	logs  syncbuffer.Buffer
	parts bool // something downstream may send parts
	raw   bool // something downstream needs the bytes of bodies

	unread *selection      // the requests whose body is left to that
	memory *node.Memory    // of the program; nil for no limit
	change func(*listener) // sets what only tests can; may be nil
}

func newWorld(t testing.TB) *world { return &world{t: t} }

// make makes a listener of one generation; config is JSON.
func (w *world) make(name, config string) *listener {
	w.t.Helper()
	def := listenerDef(stream.Options{})
	n, err := def.New(&node.Init{
		Config:   decodeConfig(w.t, def, flowtest.Parse(w.t, config)),
		Node:     node.Ref{ID: "id-" + name, Kind: "listener", Namespace: "default", Name: name, Pos: diag.Pos{File: "test.yaml", Line: 1}},
		OutLinks: []int{1},
		Vertex:   w.vertex(),
		Log:      slog.New(slog.NewTextHandler(&w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Pool:     &w.pool,
		Memory:   w.memory,
	})
	if err != nil {
		w.t.Fatalf("New: %v", err)
	}
	l := n.(*listener)
	l.unread = w.unread
	if w.change != nil {
		w.change(l)
	}
	return l
}

// vertex returns a listener in front of a node with the traits that are set.
func (w *world) vertex() *node.Vertex {
	v := new(node.Vertex)
	if w.parts {
		v.Below |= node.SendsParts
	}
	if w.raw {
		v.Below |= node.NeedsRaw
	}
	return v
}

// serve opens a listener and makes it serve.
func (w *world) serve(n *listener, src node.Starter) {
	w.t.Helper()
	if err := n.Open(context.Background()); err != nil {
		w.t.Fatalf("Open: %v", err)
	}
	if err := n.Serve(src); err != nil {
		w.t.Fatalf("Serve: %v", err)
	}
}

// end stops and closes a listener.
func (w *world) end(n *listener) {
	w.t.Helper()
	if err := n.Stop(context.Background()); err != nil {
		w.t.Errorf("Stop: %v", err)
	}
	if err := n.Close(); err != nil {
		w.t.Errorf("Close: %v", err)
	}
}

func (n *listener) addr() string { return n.server.lifecycle.bound.Addr().String() }

// A site is one running listener and a client for it.
type site struct {
	*world
	t      testing.TB
	node   *listener
	source *source
	client *http.Client
	url    string
}

// in returns the site for another test, such as one run of a fuzz target.
func (s *site) in(t testing.TB) *site {
	other := *s
	other.t = t
	return &other
}

const loopback = `"host":"127.0.0.1","port":0`

// start runs a flow behind a listener. config is more fields in JSON, such as
// `"access_log": true`.
func start(t testing.TB, config string, f flow) *site {
	t.Helper()
	return startSource(t, config, &source{flow: f})
}

func startSource(t testing.TB, config string, src *source) *site {
	t.Helper()
	return startIn(t, newWorld(t), config, src)
}

func startIn(t testing.TB, w *world, config string, src *source) *site {
	t.Helper()
	all := "{" + loopback
	if config != "" {
		all += "," + config
	}
	n := w.make("web", all+"}")
	w.serve(n, src)
	transport := &http.Transport{DisableCompression: true}
	s := &site{world: w, t: t, node: n, source: src, client: &http.Client{Transport: transport, CheckRedirect: noRedirect}, url: "http://" + n.addr()}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.end(n)
	})
	return s
}

// An answered is an answer that has been read.
type answered struct {
	status int
	header http.Header
	body   string
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// do sends a request; headers are "Name: value".
func (s *site) do(method, path, body string, headers ...string) answered {
	s.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, s.url+path, r)
	if err != nil {
		s.t.Fatalf("request: %v", err)
	}
	for _, h := range headers {
		name, v, _ := strings.Cut(h, ": ")
		req.Header.Add(name, v)
	}
	return s.send(req)
}

func (s *site) send(req *http.Request) answered {
	s.t.Helper()
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: body: %v", req.Method, req.URL, err)
	}
	return answered{resp.StatusCode, resp.Header, string(data)}
}

// raw sends bytes on a new connection and returns the first answer, if there is one.
func (s *site) raw(request string) (answered, error) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.node.addr())
	if err != nil {
		s.t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		return answered{}, err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return answered{}, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answered{resp.StatusCode, resp.Header, string(data)}, err
}

func (a answered) want(t testing.TB, status int, body string, headers ...string) {
	t.Helper()
	if a.status != status || a.body != body {
		t.Errorf("got %d %.200q, want %d %.200q", a.status, a.body, status, body)
	}
	for _, h := range headers {
		name, want, _ := strings.Cut(h, ": ")
		if got := strings.Join(a.header.Values(name), " | "); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
}

var errTest = errors.New("the till is on fire")
