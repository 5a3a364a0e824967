package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// What a client over HTTP/3 may send that is not read yet, in bytes, for a request and a
// connection.
const (
	quicStreamWindow = 256 << 10
	quicConnWindow   = 1 << 20
)

// A quicSocket is the UDP side of a bound address. Servers with different settings take it
// over from each other; connections stay with the server that has accepted them.
type quicSocket struct {
	conn      *net.UDPConn
	transport quic.Transport
	mu        struct {
		sync.Mutex
		servers   []*http3Server // the last one accepts
		listener  *quic.Listener // of the last one
		accepting sync.WaitGroup // the goroutine of the listener
	}
}

// envNoWarning stops quic-go from printing, past the log of the program, that the kernel's
// buffers are small. docs/http.md says how to make them larger.
const envNoWarning = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"

// openQUIC binds a host and the port of its TCP side.
func openQUIC(ctx context.Context, address string, port int) (*quicSocket, error) {
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
	k := &quicSocket{conn: c.(*net.UDPConn)}
	k.transport.Conn = k.conn
	return k, nil
}

// Close closes the connections that are left. The pool calls it.
func (k *quicSocket) Close() error { return errors.Join(k.transport.Close(), k.conn.Close()) }

// add makes a server accept in place of the one before.
func (k *quicSocket) add(h *http3Server) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.servers = append(k.mu.servers, h)
	return k.acceptLocked()
}

// remove stops a server from accepting. The server before it accepts again.
func (k *quicSocket) remove(h *http3Server) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.servers = slices.DeleteFunc(k.mu.servers, func(other *http3Server) bool { return other == h })
	return k.acceptLocked()
}

func (k *quicSocket) acceptLocked() error {
	if k.mu.listener != nil {
		err := k.mu.listener.Close()
		k.mu.accepting.Wait()
		k.mu.listener = nil
		if err != nil {
			return err
		}
	}
	n := len(k.mu.servers)
	if n == 0 {
		return nil
	}
	h := k.mu.servers[n-1]
	l, err := k.transport.Listen(h.tls, h.QUICConfig)
	if err != nil {
		return fmt.Errorf("listen for HTTP/3: %w", err)
	}
	k.mu.listener = l
	k.mu.accepting.Go(func() { _ = h.ServeListener(l) }) // it ends when l is closed
	return nil
}

// An http3Server is the HTTP/3 side of an httpServer.
type http3Server struct {
	http3.Server
	tls      *tls.Config
	requests atomic.Int64 // being answered
}

func (s *server) newHTTP3(config *tls.Config) *http3Server {
	h := &http3Server{tls: http3.ConfigureTLSConfig(config)}
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.requests.Add(1)
		defer h.requests.Add(-1)
		s.serveHTTP(w, r, false)
	})
	h.MaxHeaderBytes = s.settings.headerBytes
	h.QUICConfig = &quic.Config{
		HandshakeIdleTimeout:           s.settings.headerTimeout,
		MaxIdleTimeout:                 s.settings.idleTimeout,
		MaxIncomingStreams:             maxStreams,
		MaxIncomingUniStreams:          8, // of which HTTP/3 has three
		InitialStreamReceiveWindow:     quicStreamWindow,
		MaxStreamReceiveWindow:         quicStreamWindow,
		InitialConnectionReceiveWindow: quicConnWindow,
		MaxConnectionReceiveWindow:     quicConnWindow,
	}
	h.ConnContext = func(ctx context.Context, c *quic.Conn) context.Context {
		p := &quicPeer{Conn: c}
		p.peer.conn = p
		return context.WithValue(ctx, connKey{}, p)
	}
	return h
}

// stop tells clients to go, and closes their connections once no request is left, or when ctx
// ends. New connections must not come any more.
func (h *http3Server) stop(ctx context.Context) error {
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

// A quicPeer is a connection of HTTP/3.
type quicPeer struct {
	*quic.Conn
	peer peer
}

func (p *quicPeer) reset() error {
	return p.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad), "")
}
