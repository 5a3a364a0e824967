package socket

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestAcceptError logs an error of Accept, unless the socket is closed.
func TestAcceptError(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var logs syncbuffer.Buffer
	limits := pace.Limits{Log: slog.New(slog.NewTextHandler(&logs, nil))}
	a := &Acceptor{TCPListener: l, pending: pace.NewPending(nil, nil, func() *pace.Limits { return &limits })}
	if err := l.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Accept(); err == nil || strings.Count(logs.String(), "connection not accepted") != 1 {
		t.Errorf("got %v, log %s, want an error that is logged", err, logs.String())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Accept(); !errors.Is(err, net.ErrClosed) || strings.Count(logs.String(), "connection not accepted") != 1 {
		t.Errorf("got %v, log %s, want ErrClosed and no second record", err, logs.String())
	}
}

// TestHandshakes asks clients for proof of their address when there are many handshakes,
// and refuses connections past a number.
func TestHandshakes(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	k, err := openQUIC(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHTTP3(func(http.ResponseWriter, *http.Request) {}, &tls.Config{Certificates: certified.TLS.Certificates},
		Options{HeaderBytes: 1 << 16, HeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, Streams: 10})
	if err := k.Attach(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(k.Detach(h), h.Stop(t.Context()), k.Close()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	client := func() *http3.Transport {
		c := &http3.Transport{TLSClientConfig: certified.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
		t.Cleanup(func() { c.Close() })
		return c
	}
	get := func(c *http3.Transport) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+k.conn.LocalAddr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	known := client()
	k.handshakes.Add(retryFrom)
	if err := get(known); err != nil {
		t.Fatal(err)
	}
	k.handshakes.Add(-retryFrom)
	if conns, open := k.conns.Load(), k.handshakes.Load(); conns != 1 || open != 0 {
		t.Errorf("got %d connections and %d handshakes, want 1 and none", conns, open)
	}
	k.conns.Add(maxQUICConns - 1)
	if err := get(client()); err == nil {
		t.Error("got an answer, want the connection refused")
	}
	k.conns.Add(1 - maxQUICConns)
	if err := get(known); err != nil {
		t.Error(err)
	}
}
