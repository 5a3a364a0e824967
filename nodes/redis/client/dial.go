package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/rueidis"
)

// Sizes of what a connection has; the library's own take 1 MiB a connection.
const (
	bufferBytes = 64 << 10
	pingEvery   = 5 * time.Second
	silence     = 10 * time.Second // after which a connection without answers is lost
	poolSize    = 128              // connections of commands that block; more wait
)

// open makes a client. It connects, to see whether the server is there. When ctx ends, so do
// the connections.
func (s *Settings) open(ctx context.Context) (rueidis.Client, error) {
	o := rueidis.ClientOption{
		InitAddress: s.addresses, Username: s.user, Password: s.password, SelectDB: s.database,
		ClientName: "uniflow", ClientSetInfo: rueidis.DisableClientSetInfo,
		Dialer:           net.Dialer{Timeout: connectTimeout, KeepAlive: pingEvery},
		ConnWriteTimeout: silence, ReadBufferEachConn: bufferBytes, WriteBufferEachConn: bufferBytes,
		BlockingPoolSize: poolSize, BlockingPoolCleanup: time.Minute,
		PipelineMultiplex: -1,   // one connection: commands keep their order
		DisableRetry:      true, // what may have run already is repeated by the workflow, which counts it
		DisableCache:      true,
	}
	var config *tls.Config
	if s.secure {
		var err error
		if config, err = s.tls.Config(); err != nil {
			return nil, err
		}
		o.TLSConfig = config
	}
	if s.master != "" {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: s.master, Username: s.sentinelUser, Password: s.sentinelSecret, ClientName: "uniflow",
			Dialer: o.Dialer, TLSConfig: config, TopologyRefreshInterval: pingEvery,
		}
	}
	o.DialCtxFn = func(dial context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		dial, cancel := context.WithTimeout(dial, connectTimeout)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		conn, err := d.DialContext(dial, "tcp", address)
		if err == nil && config != nil {
			conn, err = shakeHands(dial, conn, address, config)
		}
		if err != nil {
			return nil, err
		}
		if s.MaxAnswer > 0 {
			conn = &limited{Conn: conn, most: s.MaxAnswer}
		}
		return &tied{conn, context.AfterFunc(ctx, func() { conn.Close() })}, nil
	}
	return rueidis.NewClient(o)
}

// shakeHands begins TLS. A server without it waits for the end of a line that does not come.
func shakeHands(ctx context.Context, plain net.Conn, address string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		var err error
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, errors.Join(err, plain.Close())
		}
	}
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("the server has not answered the TLS handshake, so it may not offer TLS: %w", err)
		}
		_ = plain.Close() // the handshake may have closed it
		return nil, err
	}
	return conn, nil
}

// A tied connection ends with a context, so that a client can be closed whose server is silent.
type tied struct {
	net.Conn
	untie func() bool
}

// Close ends the connection before the context does.
func (t *tied) Close() error {
	t.untie()
	return t.Conn.Close()
}
