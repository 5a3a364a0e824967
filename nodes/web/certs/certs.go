// Package certs has the certificates of listeners, which come from files, or by
// ACME. It must not know what they are served with.
package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"

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

// Challenges of ACME.
const (
	challengeTLS  = "tls-alpn-01"
	challengeHTTP = "http-01"
)

func acmeField() *schema.Field {
	return schema.Group("acme", schema.Fields(
		schema.Strings("domains").Required().Doc("The names that certificates are for. They must lead here."),
		schema.String("email").Doc("Where the authority may write to."),
		schema.String("directory").Default(certmagic.LetsEncryptProductionCA).Doc("The URL of the authority."),
		schema.String("storage").Required().Doc("The folder that accounts, keys and certificates are kept in. Several programs may share it."),
		schema.Enum("challenge", challengeTLS, challengeHTTP).Default(challengeTLS).Doc("How the authority finds out that the names lead here: by a handshake at port 443, which must come to this listener, or by a request at port 80."),
		schema.Int("http_port").Default(80).Range(1, 65535).Doc("Where requests to port 80 come to, for `http-01`. A listener of the workflow without TLS answers them, or else one for that time."),
		schema.Group("eab", schema.Fields(
			schema.String("key_id").Required().Doc("The id of the key."),
			schema.String("hmac").Required().Secret().Doc("The key, in base64url as the authority gives it."),
		)).Doc("What binds the account to one that you have with the authority (external account binding), such as at ZeroSSL, Google or a company's own authority. It is sent when the account is made, which `storage` then has."),
		schema.String("ca").Doc("The authority that the directory's own certificate is of: PEM, or the path of a file. If left out, those of the system."),
	)).Doc("Gets certificates by ACME (RFC 8555), such as from Let's Encrypt, whose terms you accept, and renews them.")
}

// acmeSettings are what certificates are asked for with.
type acmeSettings struct {
	domains                   []string
	email, directory, storage string
	challenge                 string
	httpPort                  int
	ca                        string // PEM, or a path
	keyID, hmac               string // of the external account; empty without
	host                      string // of the listener
	port                      int    // of the listener
}

func newACMESettings(c schema.Config) (*acmeSettings, error) {
	s := &acmeSettings{
		email: c.String("email"), directory: c.String("directory"), storage: c.String("storage"),
		challenge: c.String("challenge"), httpPort: int(c.Int("http_port")), ca: c.String("ca"),
	}
	for _, domain := range c.Strings("domains") {
		name := strings.ToLower(domain)
		switch {
		case strings.HasPrefix(name, "*"):
			return nil, c.Errorf("domains", diag.CodeBadValue, "a certificate for %q takes a challenge by DNS", domain).WithHint("write each name that requests come to")
		case !certmagic.SubjectQualifiesForCert(name) || strings.ContainsAny(name, "/:"):
			return nil, c.Errorf("domains", diag.CodeBadValue, "%q is not the name of a host", domain).WithHint("write one such as shop.example")
		}
		s.domains = append(s.domains, name)
	}
	if u, err := url.Parse(s.directory); err != nil || u.Host == "" || u.Scheme != "https" {
		return nil, c.Errorf("directory", diag.CodeBadValue, "%q is not a URL of https", s.directory).WithHint("write one such as %s", certmagic.LetsEncryptStagingCA)
	}
	if !c.Has("eab") {
		return s, nil
	}
	eab := c.Group("eab")
	s.keyID, s.hmac = eab.String("key_id"), strings.TrimRight(eab.String("hmac"), "=")
	if key, err := base64.RawURLEncoding.DecodeString(s.hmac); err != nil || len(key) == 0 { // such as "="
		return nil, eab.Errorf("hmac", diag.CodeBadValue, "the key is not base64url").WithHint("write it as the authority shows it: letters, digits, - and _")
	}
	return s, nil
}

// key returns what equal settings have in common, without the secret.
func (s *acmeSettings) key() string {
	shown := *s
	shown.hmac = fmt.Sprintf("%x", sha256.Sum256([]byte(s.hmac)))
	return fmt.Sprintf("web.acme %+v", shown)
}

// account returns the external account; nil if there is none.
func (s *acmeSettings) account() *acme.EAB {
	if s.keyID == "" {
		return nil
	}
	return &acme.EAB{KeyID: s.keyID, MACKey: s.hmac}
}

// roots returns the authorities for the directory; nil stands for the ones of the system.
func (s *acmeSettings) roots() (*x509.CertPool, error) {
	if s.ca == "" {
		return nil, nil
	}
	data, err := pemOf(s.ca)
	if err != nil {
		return nil, fmt.Errorf("tls.acme.ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, errors.New("tls.acme.ca: no certificate in it")
	}
	return pool, nil
}
