package socket

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

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

// Options are those of a server of HTTP/3.
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

// Stop tells clients to go, and closes their connections once no request is left, or when ctx
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
