package websocket

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed websocket_client.md
var websocketClientPage string

// clientDef is a source of messages with an in-port that sends.
func clientDef(o stream.Options) *node.Def {
	def := stream.Source{
		Kind:    "websocket_client",
		Summary: "Takes messages from a WebSocket server, and sends some.",
		Page:    node.ReadPage(websocketClientPage),
		Config: schema.Fields(slices.Concat([]*schema.Field{
			schema.String("url").Required().Doc("The server, such as wss://stream.example.com/prices."),
			schema.Strings("protocols").Doc("Subprotocols to offer, best first."),
			schema.Any("hello").Doc("What to send whenever there is a new connection, such as a subscription."),
		}, httpclient.Fields(), []*schema.Field{
			schema.Bytes("max_message").Default("1MiB").Range(1, 1<<30).Doc("Longest message of the server. A longer one ends the connection, which is made again."),
			schema.Duration("ping").Default(30 * time.Second).Doc("How often to ask whether the server is still there. 0 is never."),
		})...),
		Traits: stream.Traits{Order: stream.OrderTotal},
		Open:   openClient,
	}.Def(o)
	def.In = []node.Port{{Name: "send", Doc: "A message to send."}}
	def.Role, def.Lint = node.Begins|node.Connects, field.LintTLS
	source := def.New
	def.New = func(init *node.Init) (node.Node, error) {
		n, err := source(init)
		if err != nil {
			return nil, err
		}
		inner, ok := n.(sourceOfStream)
		if !ok {
			return nil, fmt.Errorf("a source is a %T, which lacks a method", n)
		}
		return &clientNode{sourceOfStream: inner, pool: init.Pool, key: linkKey(init.Node)}, nil
	}
	return def
}

// sourceOfStream is what the node of a source implements.
type sourceOfStream interface {
	node.Node
	node.Opener
	node.Trigger
	node.Stopper
	node.Readier
	node.Finite
	node.Measured
	io.Closer
}

// A clientNode is a source that can send as well. The connection belongs to the reader,
// which outlives generations: both find it by a link in the pool.
type clientNode struct {
	sourceOfStream
	pool    *node.Pool
	key     string
	link    *link        // from Open on
	release func() error // from Open on
}

func linkKey(ref node.Ref) string {
	return "web.websocket_client " + ref.Namespace + "/" + ref.String()
}

func (n *clientNode) Open(ctx context.Context) (err error) {
	if n.link, n.release, err = acquireLink(n.pool, n.key); err != nil {
		return err
	}
	if err := n.sourceOfStream.Open(ctx); err != nil {
		return errors.Join(err, n.release())
	}
	return nil
}

func (n *clientNode) Close() error { return errors.Join(n.sourceOfStream.Close(), n.release()) }

// Receive sends a message.
func (n *clientNode) Receive(_ node.Process, pkt node.Packet) node.Result {
	v := pkt.Payload
	if body, ok := messageBody(v); ok {
		v = body
	}
	kind, data, err := encodeMessage(v, nil)
	if err != nil {
		return node.Fail(err)
	}
	return node.Block(func(ctx context.Context) node.Result {
		if err := n.link.send(ctx, kind, data); err != nil {
			return node.Fail(&node.Error{Err: err, Status: http.StatusServiceUnavailable})
		}
		return node.None()
	})
}

// A link is where a client finds the connection of its reader.
type link struct {
	mu struct {
		sync.Mutex
		conn *websocket.Conn // nil without one
	}
}

func acquireLink(pool *node.Pool, key string) (*link, func() error, error) {
	return node.Acquire(pool, key, func() (*link, error) { return new(link), nil })
}

// set makes another connection the one to send on, in place of before.
func (l *link) set(conn, before *websocket.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn != nil || l.mu.conn == before {
		l.mu.conn = conn
	}
}

// sendTimeout is how long a server may take to take a message. The connection is then
// closed, as part of the message may have been sent.
const sendTimeout = 30 * time.Second

func (l *link) send(ctx context.Context, kind websocket.MessageType, data []byte) error {
	l.mu.Lock()
	conn := l.mu.conn
	l.mu.Unlock()
	if conn == nil {
		return errors.New("there is no connection")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The end of the process must not end the connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	return conn.Write(ctx, kind, data)
}

func openClient(init *node.Init) (stream.Reader, error) {
	c := init.Config
	call, err := httpclient.NewStream(init.Config, "ws")
	if err != nil {
		return nil, err
	}
	r := &reader{
		call: call, pool: init.Pool, key: linkKey(init.Node), protocols: c.Strings("protocols"), clock: init.Clock,
		maxMessage: c.Int("max_message"), ping: c.Duration("ping"), run: newID(),
	}
	if c.Has("hello") {
		kind, data, err := encodeMessage(c.Value("hello"), nil)
		if err != nil {
			return nil, c.Errorf("hello", diag.CodeBadValue, "%v", err)
		}
		r.helloKind, r.hello = kind, data
	}
	return r, nil
}

// A reader reads the messages of a server.
type reader struct {
	call       *httpclient.Stream
	pool       *node.Pool
	key        string
	protocols  []string
	hello      []byte // nil for none
	helloKind  websocket.MessageType
	maxMessage int64
	ping       time.Duration
	clock      node.Clock
	run        string // part of the ids

	link    *link // from the first connection on
	release func() error
	conn    *websocket.Conn // nil without one
	read    int64
	atRead  atomic.Bool // it reads: pings make sense
	pinging sync.WaitGroup
	timer   struct {
		sync.Mutex
		*time.Timer // nil without a connection
	}
}

// Connect implements [stream.Reader].
func (r *reader) Connect(ctx context.Context, _ stream.Host) error {
	if r.link == nil {
		link, release, err := acquireLink(r.pool, r.key)
		if err != nil {
			return err
		}
		r.link, r.release = link, release
	}
	client, err := r.call.Client()
	if err != nil {
		return err
	}
	r.disconnect(websocket.StatusAbnormalClosure)
	req := r.call.Request(ctx)
	conn, resp, err := websocket.Dial(ctx, req.URL.String(), &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: req.Header, Host: req.Host, Subprotocols: r.protocols,
	})
	if err != nil {
		if resp != nil {
			if err := r.call.Check(resp, http.StatusSwitchingProtocols); err != nil {
				return err
			}
		}
		return r.call.Failure(err)
	}
	conn.SetReadLimit(r.maxMessage)
	if r.hello != nil {
		if err := conn.Write(ctx, r.helloKind, r.hello); err != nil {
			conn.CloseNow()
			return r.call.Failure(err)
		}
	}
	r.conn = conn
	r.link.set(conn, nil)
	if r.ping > 0 {
		r.timer.Lock()
		r.timer.Timer = time.AfterFunc(r.ping, func() { r.sendPing(conn) })
		r.timer.Unlock()
	}
	return nil
}

// sendPing asks whether the server is there. Its answer comes only while something reads.
func (r *reader) sendPing(conn *websocket.Conn) {
	r.timer.Lock()
	if r.timer.Timer == nil {
		r.timer.Unlock()
		return
	}
	r.pinging.Add(1)
	r.timer.Unlock()
	defer r.pinging.Done()
	if r.atRead.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), min(r.ping, 10*time.Second))
		err := conn.Ping(ctx)
		cancel()
		if err != nil && r.atRead.Load() {
			_ = conn.CloseNow() // Read returns the error
		}
	}
	r.timer.Lock()
	defer r.timer.Unlock()
	if r.timer.Timer != nil {
		r.timer.Timer.Reset(r.ping)
	}
}

// token is what the fields of a message need.
type token struct{ binary bool }

var (
	textToken   = &token{}
	binaryToken = &token{binary: true}
)

// Read implements [stream.Reader]: it returns one message. When ctx ends, so does the
// connection.
func (r *reader) Read(ctx context.Context, _ stream.Room) ([]stream.Message, error) {
	r.atRead.Store(true)
	kind, data, err := r.conn.Read(ctx)
	r.atRead.Store(false)
	if err != nil {
		r.disconnect(websocket.StatusAbnormalClosure)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w: %s%w", stream.ErrLost, r.call.Label, err)
	}
	r.read++
	m := stream.Message{Raw: data, Time: r.clock.Now(), Offset: r.read, Token: textToken}
	if kind == websocket.MessageBinary {
		m.Token = binaryToken
	}
	return []stream.Message{m}, nil
}

// Settle implements [stream.Reader]: the server learns nothing.
func (r *reader) Settle(context.Context, stream.Settled) error { return nil }

// Fields implements [stream.Reader].
func (r *reader) Fields(m *stream.Message, b *value.MapBuilder) {
	b.Set("id", value.String(r.run+"/"+strconv.FormatInt(m.Offset, 10)))
	b.Set("binary", value.Bool(m.Token == binaryToken))
}

// disconnect closes the connection, if there is one.
func (r *reader) disconnect(code websocket.StatusCode) {
	if r.conn == nil {
		return
	}
	r.link.set(nil, r.conn)
	r.timer.Lock()
	if r.timer.Timer != nil {
		r.timer.Timer.Stop()
	}
	r.timer.Timer = nil
	r.timer.Unlock()
	abandon := time.AfterFunc(closeWait, r.call.Abandon)
	if code == websocket.StatusAbnormalClosure {
		_ = r.conn.CloseNow() // it is closed, or will not come to life again
	} else {
		_ = r.conn.Close(code, "") // the server need not confirm it
	}
	abandon.Stop()
	r.pinging.Wait()
	r.conn = nil
}

// Close implements [stream.Reader]: it says goodbye to the server, which has a second to
// confirm it.
func (r *reader) Close(context.Context) error {
	r.disconnect(websocket.StatusNormalClosure)
	r.call.Close()
	if r.release == nil {
		return nil
	}
	return r.release()
}
