package websocket

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

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
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
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

// Settle implements [stream.Reader]: the server is not told.
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
