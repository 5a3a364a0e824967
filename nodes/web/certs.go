package web

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// certificates returns the certificate for a handshake.
type certificates func(*tls.ClientHelloInfo) (*tls.Certificate, error)

func tlsField() *schema.Field {
	return schema.Group("tls", schema.Fields(
		schema.String("cert").Doc("The certificate chain: PEM, or the path of a file."),
		schema.String("key").Secret().Doc("The private key: PEM, or the path of a file."),
		acmeField(),
	)).Doc("Serves HTTPS, with `cert` and `key` or with `acme`. The files are read when the node starts, so also at each reload.")
}

// setTLS takes over the fields tls and http3.
func (n *listener) setTLS(c schema.Config) (err error) {
	if n.settings.http3 = c.Bool("http3"); n.settings.http3 && !c.Has("tls") {
		return c.Errorf("http3", diag.CodeBadValue, "HTTP/3 takes TLS").WithHint("write tls, too")
	}
	if !c.Has("tls") {
		return nil
	}
	n.settings.tls = true
	t := c.Group("tls")
	n.certPEM, n.keyPEM = t.String("cert"), t.String("key")
	switch withACME := t.Has("acme"); {
	case withACME && (t.Has("cert") || t.Has("key")):
		return t.Errorf("acme", diag.CodeBadValue, "there is a certificate already").WithHint("write cert and key, or acme")
	case withACME:
		n.settings.acme = true
		n.acme, err = newACMESettings(t.Group("acme"))
		return err
	case !t.Has("cert") || !t.Has("key"):
		return c.Errorf("tls", diag.CodeBadValue, "there is no certificate").WithHint("write cert and key, or acme")
	}
	if isPEM(n.certPEM) && isPEM(n.keyPEM) {
		if _, err := tls.X509KeyPair([]byte(n.certPEM), []byte(n.keyPEM)); err != nil {
			return c.Group("tls").Errorf("cert", diag.CodeBadNode, "certificate and key: %v", err)
		}
	}
	return nil
}

func isPEM(s string) bool { return strings.Contains(s, "-----BEGIN ") }

func loadCert(certPEM, keyPEM string) (*tls.Certificate, error) {
	cert, err := pemOf(certPEM)
	if err != nil {
		return nil, fmt.Errorf("tls.cert: %w", err)
	}
	key, err := pemOf(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return &pair, nil
}

func pemOf(s string) ([]byte, error) {
	if isPEM(s) {
		return []byte(s), nil
	}
	return os.ReadFile(s)
}

// openACME acquires the certificates, now that the address is bound to which the authority
// will come.
func (n *listener) openACME() error {
	settings := *n.acme
	settings.host, _, _ = net.SplitHostPort(n.settings.address)
	settings.port = n.server.port()
	c, release, err := node.Acquire(n.pool, settings.key(), func() (*acmeCerts, error) { return newACMECerts(settings, n.log) })
	if err != nil {
		return err
	}
	n.acmeCerts, n.cert, n.release = c, c.certificate, append(n.release, release)
	return nil
}

// Ready returns why there is no certificate, or nil.
func (n *listener) Ready() error {
	if n.acmeCerts == nil {
		return nil
	}
	return n.acmeCerts.ready()
}
