package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// transportSettings are what makes one pool of connections differ from another.
type transportSettings struct {
	public         bool
	proxy          string // a URL, proxyNone, or empty for the environment
	proxyUser      string
	proxyPassword  string
	connectTimeout time.Duration
	headerTimeout  time.Duration
	idleTimeout    time.Duration
	headerBytes    int64
	connections    int
	tls            stream.TLS
}

const proxyNone = "none"

// checkProxy returns what is wrong with the field proxy. It does not show it.
func (t *transportSettings) checkProxy() error {
	if t.proxy == "" || t.proxy == proxyNone {
		return nil
	}
	u, err := url.Parse(t.proxy)
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

// A sharedTransport is the connections of the generations of a node.
type sharedTransport struct{ *http.Transport }

// Close closes the idle connections. There are no others when the last process has
// ended.
func (t *sharedTransport) Close() error {
	t.CloseIdleConnections()
	return nil
}

// open makes a transport.
func (t *transportSettings) open() (*sharedTransport, error) {
	config, err := t.tls.Config()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: t.connectTimeout}
	if t.public {
		dialer.ControlContext = denyPrivate
	}
	transport := &http.Transport{
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
		TLSHandshakeTimeout:    t.connectTimeout,
		ResponseHeaderTimeout:  t.headerTimeout,
		IdleConnTimeout:        t.idleTimeout,
		MaxResponseHeaderBytes: t.headerBytes,
		ExpectContinueTimeout:  time.Second,
		MaxConnsPerHost:        t.connections,
		MaxIdleConnsPerHost:    t.connections, // fewer would close connections under load, to open them again
		MaxIdleConns:           t.connections, // redirects may lead to any number of hosts
		DisableCompression:     true,          // the node decompresses, within its limits
		ForceAttemptHTTP2:      true,          // net/http does not by itself with a dialer of ours
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second},
	}
	switch {
	case t.proxy == proxyNone || t.proxy == "" && t.public: // a proxy would look up names itself
	case t.proxy == "":
		transport.Proxy = http.ProxyFromEnvironment
	default:
		u, err := url.Parse(t.proxy)
		if err != nil {
			return nil, errors.New("proxy: not a URL")
		}
		if t.proxyUser != "" {
			u.User = url.UserPassword(t.proxyUser, t.proxyPassword)
		}
		transport.Proxy = http.ProxyURL(u)
	}
	return &sharedTransport{transport}, nil
}

// denyPrivate refuses connections to addresses that are not public. It is called with
// each address that a name stands for, right before the connection is made, so that a
// second answer of the name server cannot replace the one that was checked.
func denyPrivate(_ context.Context, network, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" || !isPublic(addr.Addr()) {
		return &deniedError{address}
	}
	return nil
}

func prefixes(list ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, s := range list {
		all[i] = netip.MustParsePrefix(s)
	}
	return all
}

var (
	// notPublic are the blocks that are not globally reachable, by the registries of
	// IANA for special purposes, in addition to what package netip knows.
	notPublic = prefixes(
		"0.0.0.0/8",        // this network
		"100.64.0.0/10",    // shared by the customers of a carrier; metadata of Alibaba
		"192.0.0.0/24",     // assignments of the IETF; metadata of Oracle
		"192.0.2.0/24",     // documentation
		"192.88.99.0/24",   // relays of 6to4
		"198.18.0.0/15",    // benchmarks
		"198.51.100.0/24",  // documentation
		"203.0.113.0/24",   // documentation
		"240.0.0.0/4",      // reserved, broadcast
		"168.63.129.16/32", // the host of a machine of Azure
		"2001::/23",        // assignments of the IETF: Teredo, ORCHID, benchmarks
		"2001:db8::/32",    // documentation
		"3fff::/20",        // documentation
	)
	globalV6 = netip.MustParsePrefix("2000::/3") // all that is assigned

	// Blocks of IPv6 with an address of IPv4 in them, and where it begins.
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// isPublic reports whether an address is one that anybody on the internet may have.
func isPublic(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	if a.Is6() {
		b := a.As16()
		switch {
		case nat64.Contains(a):
			return isPublic(netip.AddrFrom4([4]byte(b[12:16])))
		case sixToFour.Contains(a):
			return isPublic(netip.AddrFrom4([4]byte(b[2:6])))
		case !globalV6.Contains(a):
			return false
		}
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
