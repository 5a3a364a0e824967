// Package httpclient is the way out by HTTP: [NewEndpoint] reads what the config of a node says
// about a service, with the fields of [Fields], [Settings.Acquire] makes the connections,
// which generations share, and a [Stream] connects to what sends without end.
//
// With egress: public, addresses are checked when a connection is made: see egress.go. No
// error has the query of a URL, its path if that may be a secret, or credentials. The
// package must not know what is sent.
package httpclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

// Settings are what makes one pool of connections differ from another.
type Settings struct {
	Public         bool   // only addresses that anybody on the internet may have
	Proxy          string // a URL, "none", or empty for the environment
	ProxyUser      string
	ProxyPassword  string
	ConnectTimeout time.Duration // to look up a name and to connect, and again for the TLS handshake; 0 for none
	HeaderTimeout  time.Duration // from the end of a request to the header of its answer; 0 for none
	IdleTimeout    time.Duration // of a connection; 0 for none
	HeaderBytes    int64         // longest header of an answer
	Connections    int           // to a host, idle ones included
	TLS            field.TLS
}

const proxyNone = "none"

// checkProxy returns what is wrong with the field proxy. It does not show it.
func (t *Settings) checkProxy() error {
	if t.Proxy == "" || t.Proxy == proxyNone {
		return nil
	}
	u, err := url.Parse(t.Proxy)
	if err != nil || u.Hostname() == "" {
		return errors.New("not the URL of a proxy")
	}
	if u.User != nil {
		return errors.New("a URL must not contain credentials: they belong into proxy_auth")
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return nil
	}
	return errors.New("want a proxy of http, https or socks5")
}

// A DialError is why there is no connection.
type DialError struct{ err error }

func (e *DialError) Error() string { return e.err.Error() }
func (e *DialError) Unwrap() error { return e.err }

// A sharedTransport is the connections of the generations of a node.
type sharedTransport struct{ *http.Transport }

// Close closes the idle connections. There are no others when the last process has
// ended.
func (t *sharedTransport) Close() error {
	t.CloseIdleConnections()
	return nil
}

// Acquire returns the connections of these settings, which nodes with the same owner and
// settings share, those of the generation before included. The certificates are read from
// their files. Call release once. The error is placed in c, which has the field tls.
func (t Settings) Acquire(pool *node.Pool, owner string, c schema.Config) (rt http.RoundTripper, release func() error, err error) {
	if t.TLS, err = t.TLS.Load(); err != nil {
		return nil, nil, field.Place(err, c)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", t)) // a key is shown in messages, and t contains secrets
	shared, release, err := node.Acquire(pool, owner+" "+hex.EncodeToString(sum[:]), t.open)
	if err != nil {
		return nil, nil, field.Place(err, c)
	}
	return shared, release, nil
}

// open makes a transport.
func (t *Settings) open() (*sharedTransport, error) {
	config, err := t.TLS.Config()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: t.ConnectTimeout}
	if t.Public {
		dialer.ControlContext = denyPrivate
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &DialError{err}
			}
			return c, nil
		},
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.StatusCode != http.StatusOK {
				return &DialError{fmt.Errorf("the proxy answered %d", resp.StatusCode)}
			}
			return nil
		},
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    t.ConnectTimeout,
		ResponseHeaderTimeout:  t.HeaderTimeout,
		IdleConnTimeout:        t.IdleTimeout,
		MaxResponseHeaderBytes: t.HeaderBytes,
		ExpectContinueTimeout:  time.Second,
		MaxConnsPerHost:        t.Connections,
		MaxIdleConnsPerHost:    t.Connections, // fewer would close connections under load, to open them again
		MaxIdleConns:           t.Connections, // redirects may lead to any number of hosts
		DisableCompression:     true,          // the node decompresses, within its limits
		ForceAttemptHTTP2:      true,          // net/http does not by itself with a dialer of ours
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second},
	}
	switch {
	case t.Proxy == proxyNone || t.Proxy == "" && t.Public: // a proxy would look up names itself
	case t.Proxy == "":
		transport.Proxy = http.ProxyFromEnvironment
	default:
		u, err := url.Parse(t.Proxy)
		if err != nil {
			return nil, errors.New("proxy: not a URL")
		}
		if t.ProxyUser != "" {
			u.User = url.UserPassword(t.ProxyUser, t.ProxyPassword)
		}
		transport.Proxy = http.ProxyURL(u)
	}
	return &sharedTransport{transport}, nil
}
