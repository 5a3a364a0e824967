// Package httpclient is the one way out by HTTP. [Settings] make a [Transport]: connections, with
// TLS, a proxy, limits, and rules where they may lead. [Settings.Acquire] shares it among
// nodes and generations. Why there is no answer is a [Failure], in the same words for all.
//
// [NewEndpoint] reads what the config of a node says about a service, with the fields of
// [Fields], and a [Stream] connects to what sends without end. [Fetch] reads a small answer.
//
// With egress: public, addresses are checked when a connection is made: see egress.go. No
// error has the query of a URL, its path if that may be a secret, or credentials. The
// package must not know what is sent.
package httpclient

import (
	"context"
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
	Proxy          string // a URL, [NoProxy], or empty for the environment
	ProxyUser      string
	ProxyPassword  string
	ConnectTimeout time.Duration // to look up a name and to connect, and again for the TLS handshake; 0 for none
	HeaderTimeout  time.Duration // from the end of a request to the header of its answer; 0 for none
	IdleTimeout    time.Duration // of a connection; 0 for none
	HeaderBytes    int64         // longest header of an answer; 0 for 64 KiB
	Connections    int           // to a host, idle ones included; 0 for 1024
	HTTP2          bool          // nothing else is spoken; without TLS, from the first byte on
	Raw            bool          // bodies come as they were sent; else gzip is asked for, and decompressed
	TLS            field.TLS
}

// NoProxy is a proxy that is none, whatever the environment says.
const NoProxy = "none"

// checkProxy returns what is wrong with the field proxy. It does not show it.
func (t *Settings) checkProxy() error {
	if t.Proxy == "" || t.Proxy == NoProxy {
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

// A Transport is a pool of connections. Any goroutine may call its methods. Errors of RoundTrip
// are [*Failure]s.
type Transport struct {
	http.Transport
	settings Settings
}

// Close closes the idle connections. There are no others when the last request has ended.
func (t *Transport) Close() error {
	t.CloseIdleConnections()
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(req)
	if err != nil {
		return nil, t.settings.explain(err)
	}
	return resp, nil
}

// Acquire returns the connections of these settings, which all nodes share that have the same
// key and settings, nodes of the generation before included. The certificates are read from
// their files. Call release once. The error is placed in c, which has the field tls.
func (t Settings) Acquire(pool *node.Pool, key string, c schema.Config) (shared *Transport, release func() error, err error) {
	if t.TLS, err = t.TLS.Load(); err != nil {
		return nil, nil, field.Place(err, c)
	}
	shared, release, err = node.Acquire(pool, key+" "+field.Sum(t), t.Open)
	return shared, release, field.Place(err, c)
}

// Open makes a transport. The certificates are read from their files; the error is a
// [*field.RefusedError].
func (t Settings) Open() (*Transport, error) {
	if t.HeaderBytes == 0 {
		t.HeaderBytes = 64 << 10
	}
	if t.Connections == 0 {
		t.Connections = 1024
	}
	config, err := t.TLS.Config()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: t.ConnectTimeout}
	if t.Public {
		dialer.ControlContext = denyPrivate
	}
	transport := &Transport{settings: t, Transport: http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &dialError{err}
			}
			return c, nil
		},
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.StatusCode != http.StatusOK {
				return &dialError{fmt.Errorf("the proxy answered %d", resp.StatusCode)}
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
		DisableCompression:     t.Raw,
		ForceAttemptHTTP2:      true, // net/http does not by itself with a dialer of ours
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second},
	}}
	if t.HTTP2 {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	switch {
	case t.Proxy == NoProxy || t.Proxy == "" && t.Public: // a proxy would look up names itself
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
	return transport, nil
}
