package sockets

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// withAddress adds the fields that both kinds have.
func withAddress(own ...*schema.Field) schema.Object {
	return schema.Fields(append([]*schema.Field{
		schema.Enum("network", "tcp", "udp", "unix", "tls").Default("tcp").Doc("The type of the socket; `tls` is TCP with TLS."),
		schema.String("address").Required().Doc("Host and port, such as `127.0.0.1:5170`, or the path of a socket of `unix`."),
		schema.Enum("frame", "lines", "length", "raw").Default("lines").Doc("Where a message ends: at a line feed; after a length, which is in four bytes before the message, the most significant first; or `raw`, where a read ends. With `network: udp`, each datagram is a message."),
		field.NewTLS("For `network: tls`. The files are read at each connect. Who listens with `ca` takes only clients with a certificate of these authorities."),
	}, own...)...)
}

// settings are where a socket is. They are immutable.
type settings struct {
	network, address, host string // network is tcp, udp or unix
	frame                  framing
	secure, listens        bool
	tls                    field.TLS
}

func newSettings(c schema.Config, listens bool) (*settings, error) {
	s := &settings{network: c.String("network"), address: c.String("address"), frame: framings[c.String("frame")], listens: listens}
	if s.network == "tls" {
		s.network, s.secure = "tcp", true
	} else if c.Has("tls") {
		return nil, c.Errorf("tls", diag.CodeBadValue, "a socket of %s has no TLS", s.network).WithHint("write network: tls, or remove tls")
	}
	if s.network == "udp" {
		if c.Has("frame") && s.frame != frameRaw {
			return nil, c.Errorf("frame", diag.CodeBadValue, "with network: udp, each datagram is a message").WithHint("remove frame")
		}
		s.frame = frameRaw
	}
	if s.network == "unix" {
		if s.address == "" || len(s.address) > 100 {
			return nil, c.Errorf("address", diag.CodeBadValue, "want the path of a socket, of at most 100 bytes")
		}
	} else {
		host, port, err := net.SplitHostPort(s.address)
		if err != nil || port == "" || !listens && host == "" {
			return nil, c.Errorf("address", diag.CodeBadValue, "%q is not a host and a port", s.address).WithHint("write one such as 127.0.0.1:5170")
		}
		s.host = host
	}
	var err error
	if s.tls, err = field.TLSOf(c); err != nil {
		return nil, err
	}
	if s.secure && listens && s.tls.Cert == "" {
		return nil, c.Errorf("tls", diag.CodeBadValue, "who listens with TLS needs a certificate").WithHint("add tls.cert and tls.key")
	}
	return s, nil
}

// config reads the certificates.
func (s *settings) config() (*tls.Config, error) {
	c, err := s.tls.Config()
	if err != nil {
		return nil, err
	}
	c.ServerName = cmp.Or(c.ServerName, s.host)
	if s.listens && c.RootCAs != nil {
		c.ClientCAs, c.ClientAuth = c.RootCAs, tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// connectTimeout bounds connecting, and again the handshake of TLS.
const connectTimeout = 4 * time.Second

// dial connects.
func (s *settings) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if !s.secure {
		return (&net.Dialer{}).DialContext(ctx, s.network, s.address)
	}
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, s.network, s.address)
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return nil, &stream.RefusedError{Field: "tls.ca", Err: fmt.Errorf("%s: its certificate is of an authority that is not trusted", s.address)}
	case errors.As(err, &name):
		return nil, &stream.RefusedError{Field: "tls.server_name", Err: name}
	}
	return conn, err
}

// listen opens a socket for connections.
func (s *settings) listen(ctx context.Context) (net.Listener, error) {
	var config *tls.Config
	if s.secure {
		var err error
		if config, err = s.config(); err != nil {
			return nil, err
		}
	}
	if s.network == "unix" {
		s.removeStale(ctx)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, s.network, s.address)
	if err != nil {
		return nil, &stream.RefusedError{Field: "address", Err: err}
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}

// removeStale removes the socket of a program that has crashed: nothing listens there.
func (s *settings) removeStale(ctx context.Context) {
	info, err := os.Stat(s.address)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return
	}
	if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", s.address); err == nil {
		conn.Close()
		return
	}
	os.Remove(s.address) // if it stays, Listen says so
}
