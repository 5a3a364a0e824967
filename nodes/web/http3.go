package web

import (
	"context"
	"crypto/tls"
	"net/http"
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
		if started, ok := c.Context().Value(quicStart{}).(func()); ok {
			started()
		}
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
