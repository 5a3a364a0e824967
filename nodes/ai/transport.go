package ai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

// A transport is what makes one pool of connections differ from another.
type transport struct {
	connectTimeout time.Duration
	connections    int
	tls            field.TLS
}

// A dialError is why there is no connection.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// A connections is the pool of connections of nodes with the same settings.
type connections struct{ http.Transport }

// Close closes the idle connections; there are no others when the last process has ended.
func (c *connections) Close() error {
	c.CloseIdleConnections()
	return nil
}

// acquire returns a client with the connections of these settings.
func (t transport) acquire(pool *node.Pool, c schema.Config) (*http.Client, func() error, error) {
	var err error
	if t.tls, err = t.tls.Load(); err != nil {
		return nil, nil, field.Place(err, c)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", t)) // a key is shown in messages, and t contains secrets
	shared, release, err := node.Acquire(pool, "ai.connections "+hex.EncodeToString(sum[:]), t.open)
	if err != nil {
		return nil, nil, field.Place(err, c)
	}
	// Another host must not get the key and the conversation.
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: &shared.Transport, CheckRedirect: refuse}, release, nil
}

func (t transport) open() (*connections, error) {
	config, err := t.tls.Config()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: t.connectTimeout}
	return &connections{http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &dialError{err}
			}
			return c, nil
		},
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    t.connectTimeout,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		MaxConnsPerHost:        t.connections,
		MaxIdleConns:           t.connections,
		MaxIdleConnsPerHost:    t.connections, // fewer would close connections under load, to open them again
		ForceAttemptHTTP2:      true,
	}}, nil
}
