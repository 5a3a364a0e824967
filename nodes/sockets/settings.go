package sockets

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// withAddress adds the fields that both kinds have.
func withAddress(own ...*schema.Field) schema.Object {
	return schema.Fields(append([]*schema.Field{
		schema.Enum("network", "tcp", "udp", "unix", "tls").Default("tcp").Doc("What sort of socket it is; `tls` is TCP with TLS."),
		schema.String("address").Required().Doc("Host and port, such as `127.0.0.1:5170`, or the path of a socket of `unix`."),
		schema.Enum("frame", "lines", "length", "raw").Default("lines").Doc("Where a message ends: at a line feed; after as many bytes as four bytes before it say, the most significant first; or `raw`, where a read ends. With `network: udp`, each datagram is a message."),
		schema.Group("tls", schema.Fields(
			schema.String("cert").Doc("The certificate of this side: PEM, or the path of a file."),
			schema.String("key").Secret().Doc("Its private key: PEM, or the path of a file."),
			schema.String("ca").Doc("The certificates of the authorities to trust instead of those of the system: PEM, or the path of a file. Who listens with it takes only clients with a certificate of them."),
			schema.String("server_name").Doc("The name that the certificate of the other side must have, if it is not the host of the address."),
			schema.Bool("skip_verify").Default(false).Doc("Accepts any certificate of the other side, so anyone on the way can read and change everything."),
		)).Doc("For `network: tls`. The files are read at each connect."),
	}, own...)...)
}

// settings are where a socket is. They are immutable.
type settings struct {
	network, address                string // network is tcp, udp or unix
	frame                           framing
	secure, listens                 bool
	cert, key, ca, serverName, host string
	insecure                        bool
}

func newSettings(c schema.Config, listens bool) (*settings, error) {
	t := c.Group("tls")
	s := &settings{
		network: c.String("network"), address: c.String("address"), frame: framings[c.String("frame")], listens: listens,
		cert: t.String("cert"), key: t.String("key"), ca: t.String("ca"), serverName: t.String("server_name"), insecure: t.Bool("skip_verify"),
	}
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
	if (s.cert == "") != (s.key == "") {
		return nil, t.Errorf("", diag.CodeBadValue, "a certificate needs both cert and key")
	}
	if s.secure && listens && s.cert == "" {
		return nil, c.Errorf("tls", diag.CodeBadValue, "who listens with TLS needs a certificate").WithHint("add tls.cert and tls.key")
	}
	return s, nil
}

// pem returns what a field says that is PEM or the path of a file.
func pem(field, text string) ([]byte, error) {
	if strings.Contains(text, "-----BEGIN") {
		return []byte(text), nil
	}
	data, err := os.ReadFile(text)
	if err != nil {
		return nil, &stream.RefusedError{Field: "tls." + field, Err: err}
	}
	return data, nil
}

// config reads the certificates.
func (s *settings) config() (*tls.Config, error) {
	c := &tls.Config{ServerName: s.serverName, InsecureSkipVerify: s.insecure} // only by a field that check warns of
	if c.ServerName == "" {
		c.ServerName = s.host
	}
	if s.cert != "" {
		cert, err := pem("cert", s.cert)
		if err != nil {
			return nil, err
		}
		key, err := pem("key", s.key)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, &stream.RefusedError{Field: "tls.cert", Err: fmt.Errorf("certificate and key: %w", err)}
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if s.ca != "" {
		data, err := pem("ca", s.ca)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, &stream.RefusedError{Field: "tls.ca", Err: errors.New("no certificate in PEM form")}
		}
		c.RootCAs, c.ClientCAs, c.ClientAuth = pool, pool, tls.RequireAndVerifyClientCert
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
