// Package certs has the certificates of listeners: those of files, and those that it gets by
// ACME. It must not know what they are served with.
package certs

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// A Getter returns the certificate for a handshake.
type Getter func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// Field is the field tls.
func Field() *schema.Field {
	return schema.Group("tls", schema.Fields(
		schema.String("cert").Doc("The certificate chain: PEM, or the path of a file."),
		schema.String("key").Secret().Doc("The private key: PEM, or the path of a file."),
		acmeField(),
	)).Doc("Serves HTTPS, with `cert` and `key` or with `acme`. The files are read when the node starts, so also at each reload.")
}

// Settings are what the field tls says. They are immutable.
type Settings struct {
	cert, key string        // PEM, or a path; empty with ACME
	acme      *acmeSettings // nil without
}

// Read reads the field tls of a config. It returns nil without the field.
func Read(c schema.Config) (*Settings, error) {
	if !c.Has("tls") {
		return nil, nil
	}
	t := c.Group("tls")
	s := &Settings{cert: t.String("cert"), key: t.String("key")}
	switch withACME := t.Has("acme"); {
	case withACME && (t.Has("cert") || t.Has("key")):
		return nil, t.Errorf("acme", diag.CodeBadValue, "there is a certificate already").WithHint("write cert and key, or acme")
	case withACME:
		var err error
		s.acme, err = newACMESettings(t.Group("acme"))
		return s, err
	case !t.Has("cert") || !t.Has("key"):
		return nil, c.Errorf("tls", diag.CodeBadValue, "there is no certificate").WithHint("write cert and key, or acme")
	}
	if isPEM(s.cert) && isPEM(s.key) {
		if _, err := tls.X509KeyPair([]byte(s.cert), []byte(s.key)); err != nil {
			return nil, t.Errorf("cert", diag.CodeBadNode, "certificate and key: %v", err)
		}
	}
	return s, nil
}

// IsACME reports whether certificates come by ACME.
func (s *Settings) IsACME() bool { return s != nil && s.acme != nil }

// Load reads the certificate of files.
func (s *Settings) Load() (Getter, error) {
	cert, err := pemOf(s.cert)
	if err != nil {
		return nil, fmt.Errorf("tls.cert: %w", err)
	}
	key, err := pemOf(s.key)
	if err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, nil
}

// Obtain acquires the certificates of ACME. The address of a listener, to which the authority
// will come, must be bound. The caller releases them.
func (s *Settings) Obtain(pool *node.Pool, host string, port int, log *slog.Logger) (c *Obtained, release func() error, err error) {
	settings := *s.acme
	settings.host, settings.port = host, port
	return node.Acquire(pool, settings.key(), func() (*Obtained, error) { return newObtained(settings, log) })
}

func isPEM(s string) bool { return strings.Contains(s, "-----BEGIN ") }

func pemOf(s string) ([]byte, error) {
	if isPEM(s) {
		return []byte(s), nil
	}
	return os.ReadFile(s)
}
