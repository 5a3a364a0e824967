package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// What a client over HTTP/3 may send that is not read yet, in bytes, for a request and a
// connection.
const (
	quicStreamWindow = 256 << 10
	quicConnWindow   = 1 << 20
)

// An HTTP3 is a server of HTTP/3.
type HTTP3 struct {
	http3.Server
	tls      *tls.Config
	requests atomic.Int64 // being answered
}

// Options are the settings of a server of HTTP/3.
type Options struct {
	HeaderBytes   int           // of a request, at most
	HeaderTimeout time.Duration // of the handshake; 0 is none
	IdleTimeout   time.Duration // of a connection; 0 is none
	Streams       int64         // concurrent requests of a connection, at most
}

// NewHTTP3 returns a server that has not begun to accept: see [QUIC.Attach].
func NewHTTP3(handler http.HandlerFunc, config *tls.Config, o Options) *HTTP3 {
	h := &HTTP3{tls: http3.ConfigureTLSConfig(config)}
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.requests.Add(1)
		defer h.requests.Add(-1)
		handler(w, r)
	})
	h.MaxHeaderBytes = o.HeaderBytes
	h.QUICConfig = &quic.Config{
		HandshakeIdleTimeout:           o.HeaderTimeout,
		MaxIdleTimeout:                 o.IdleTimeout,
		MaxIncomingStreams:             o.Streams,
		MaxIncomingUniStreams:          8, // of which HTTP/3 has three
		InitialStreamReceiveWindow:     quicStreamWindow,
		MaxStreamReceiveWindow:         quicStreamWindow,
		InitialConnectionReceiveWindow: quicConnWindow,
		MaxConnectionReceiveWindow:     quicConnWindow,
	}
	h.ConnContext = func(ctx context.Context, c *quic.Conn) context.Context {
		if started, ok := c.Context().Value(quicStart{}).(func()); ok {
			started()
		}
		return pace.With(ctx, quicConn{c})
	}
	return h
}

// Stop asks clients to go, and closes their connections once no request is left, or when ctx
// ends. New connections must not come any more.
func (h *HTTP3) Stop(ctx context.Context) error {
	quiet, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		tick := time.NewTicker(drainTick)
		defer tick.Stop()
		for idle := time.Duration(0); idle < lameDuckTicks; idle++ { // requests may be on their way
			select {
			case <-tick.C:
			case <-quiet.Done():
				return
			}
			if h.requests.Load() > 0 {
				idle = 0
			}
		}
		cancel()
	})
	err := h.Shutdown(quiet)
	cancel()
	waiting.Wait()
	if ctx.Err() == nil {
		err = nil // clients may stay connected
	}
	return err
}

// A quicConn is a connection of HTTP/3 whose client takes too long.
type quicConn struct{ *quic.Conn }

func (c quicConn) Reset() error {
	return c.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad), "")
}

// A QUIC is the UDP side of a bound address. Servers with different settings take it
// over from each other; connections stay with the server that has accepted them.
type QUIC struct {
	conn       *net.UDPConn
	transport  quic.Transport
	conns      atomic.Int64 // open, also while their handshake lasts
	handshakes atomic.Int64
	mu         struct {
		sync.Mutex
		servers   state.Generations[HTTP3]
		listener  *quic.Listener // of the current one
		accepting sync.WaitGroup // the goroutine of the listener
	}
}

// envNoWarning stops quic-go from printing, past the log of the program, that the kernel's
// buffers are small. docs/http.md says how to make them larger.
const envNoWarning = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"

// openQUIC binds a host and the port of its TCP side.
func openQUIC(ctx context.Context, address string, port int) (*QUIC, error) {
	if err := os.Setenv(envNoWarning, "true"); err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP/3: %w", err)
	}
	k := &QUIC{conn: c.(*net.UDPConn)}
	k.transport.Conn = k.conn
	k.transport.ConnContext = k.connContext
	k.transport.VerifySourceAddress = func(net.Addr) bool { return k.handshakes.Load() >= retryFrom }
	return k, nil
}

const (
	// maxQUICConns is how many clients may be connected over HTTP/3. Others are refused,
	// so they come over TCP. They need no files, which would bound them.
	maxQUICConns = 8192

	// retryFrom is how many handshakes there may be until clients must first show that
	// their address is theirs.
	retryFrom = 256
)

var errManyConns = errors.New("too many connections")

// quicStart is the key of a function in the context of a connection, which ends what counts
// as its handshake.
type quicStart struct{}

// connContext counts a connection, or refuses it.
func (k *QUIC) connContext(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	if k.conns.Add(1) > maxQUICConns {
		k.conns.Add(-1)
		return nil, errManyConns
	}
	k.handshakes.Add(1)
	started := sync.OnceFunc(func() { k.handshakes.Add(-1) })
	context.AfterFunc(ctx, func() {
		started()
		k.conns.Add(-1)
	})
	return context.WithValue(ctx, quicStart{}, started), nil
}

// Close closes the connections that are left. The pool calls it.
func (k *QUIC) Close() error { return errors.Join(k.transport.Close(), k.conn.Close()) }

// Attach makes a server accept in place of the one before.
func (k *QUIC) Attach(h *HTTP3) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.servers.Attach(h)
	return k.acceptLocked()
}

// Detach stops a server from accepting. The server before it accepts again.
func (k *QUIC) Detach(h *HTTP3) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.servers.Detach(h)
	return k.acceptLocked()
}

func (k *QUIC) acceptLocked() error {
	if k.mu.listener != nil {
		err := k.mu.listener.Close()
		k.mu.accepting.Wait()
		k.mu.listener = nil
		if err != nil {
			return err
		}
	}
	if !k.mu.servers.Serving() {
		return nil
	}
	h := k.mu.servers.Current()
	l, err := k.transport.Listen(h.tls, h.QUICConfig)
	if err != nil {
		return fmt.Errorf("listen for HTTP/3: %w", err)
	}
	k.mu.listener = l
	k.mu.accepting.Go(func() { _ = h.ServeListener(l) }) // it ends when l is closed
	return nil
}
