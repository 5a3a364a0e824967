package web

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

func openWSClient(init *node.Init) (stream.Reader, error) {
	c := init.Config
	call, err := httpclient.NewStream(init.Config, "ws")
	if err != nil {
		return nil, err
	}
	r := &wsClientReader{
		call: call, pool: init.Pool, key: wsLinkKey(init.Node), protocols: c.Strings("protocols"), clock: init.Clock,
		maxMessage: c.Int("max_message"), ping: c.Duration("ping"), run: newWSID(),
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

// A wsClientReader reads the messages of a server.
type wsClientReader struct {
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

	link    *wsLink // from the first connection on
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
func (r *wsClientReader) Connect(ctx context.Context, _ stream.Host) error {
	if r.link == nil {
		link, release, err := acquireWSLink(r.pool, r.key)
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
func (r *wsClientReader) sendPing(conn *websocket.Conn) {
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

// wsClientToken is what the fields of a message need.
type wsClientToken struct{ binary bool }

var (
	wsTextToken   = &wsClientToken{}
	wsBinaryToken = &wsClientToken{binary: true}
)

// Read implements [stream.Reader]: it returns one message. When ctx ends, so does the
// connection.
func (r *wsClientReader) Read(ctx context.Context, _ stream.Room) ([]stream.Message, error) {
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
	m := stream.Message{Raw: data, Time: r.clock.Now(), Offset: r.read, Token: wsTextToken}
	if kind == websocket.MessageBinary {
		m.Token = wsBinaryToken
	}
	return []stream.Message{m}, nil
}

// Settle implements [stream.Reader]: the server is not told.
func (r *wsClientReader) Settle(context.Context, stream.Settled) error { return nil }

// Fields implements [stream.Reader].
func (r *wsClientReader) Fields(m *stream.Message, b *value.MapBuilder) {
	b.Set("id", value.String(r.run+"/"+strconv.FormatInt(m.Offset, 10)))
	b.Set("binary", value.Bool(m.Token == wsBinaryToken))
}

// disconnect closes the connection, if there is one.
func (r *wsClientReader) disconnect(code websocket.StatusCode) {
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
	abandon := time.AfterFunc(wsCloseWait, r.call.Abandon)
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
func (r *wsClientReader) Close(context.Context) error {
	r.disconnect(websocket.StatusNormalClosure)
	r.call.Close()
	if r.release == nil {
		return nil
	}
	return r.release()
}
