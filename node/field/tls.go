package field

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// TLS is the field tls of a kind that connects: whom it trusts, and the certificate that
// it shows. It is comparable.
type TLS struct {
	CA, Cert, Key string // PEM, or the path of a file; empty for none
	ServerName    string // that the other side must have; empty for the name in its address
	SkipVerify    bool
}

// NewTLS declares the field. doc says when there is TLS, and when files are read. A kind with
// it has the Lint [LintTLS].
func NewTLS(doc string) *schema.Field {
	return schema.Group("tls", schema.Fields(
		schema.String("ca").Doc("The certificates of the authorities to trust instead of those of the system: PEM, or the path of a file."),
		schema.String("cert").Doc("The certificate of this side: PEM, or the path of a file."),
		schema.String("key").Secret().Doc("Its private key: PEM, or the path of a file."),
		schema.String("server_name").Doc("The name that the certificate of the other side must have, if it is not that of the address."),
		schema.Bool("skip_verify").Default(false).Doc("Accepts any certificate, so anyone on the way can read and change everything."),
	)).Doc(doc)
}

// TLSOf reads the field of a config, and checks what needs no file. The error is a
// [*diag.Diagnostic].
func TLSOf(c schema.Config) (TLS, error) {
	group := c.Group("tls")
	t := TLS{
		CA: group.String("ca"), Cert: group.String("cert"), Key: group.String("key"),
		ServerName: group.String("server_name"), SkipVerify: group.Bool("skip_verify"),
	}
	if (t.Cert == "") != (t.Key == "") {
		return t, group.Errorf("", diag.CodeBadValue, "a certificate needs both cert and key")
	}
	inline := t
	if !isPEM(t.CA) {
		inline.CA = ""
	}
	if !isPEM(t.Cert) || !isPEM(t.Key) {
		inline.Cert, inline.Key = "", ""
	}
	_, err := inline.Config()
	return t, Place(err, c)
}

func isPEM(text string) bool { return strings.Contains(text, "-----BEGIN") }

// Load replaces paths by what the files have. The error is a [*RefusedError].
func (t TLS) Load() (TLS, error) {
	fields := [...]string{"tls.ca", "tls.cert", "tls.key"}
	for i, text := range []*string{&t.CA, &t.Cert, &t.Key} {
		if *text == "" || isPEM(*text) {
			continue
		}
		data, err := os.ReadFile(*text)
		if err == nil && len(data) == 0 {
			err = fmt.Errorf("%s is empty", *text)
		}
		if err != nil {
			return t, &RefusedError{fields[i], err}
		}
		*text = string(data)
	}
	return t, nil
}

// Config returns what a client needs; it reads the files. The error is a [*RefusedError].
func (t TLS) Config() (*tls.Config, error) {
	t, err := t.Load()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify} // only by a field that check warns of
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, &RefusedError{"tls.ca", errors.New("no certificate in PEM form")}
		}
	}
	if t.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key))
		if err != nil {
			return nil, &RefusedError{"tls.cert", fmt.Errorf("certificate and key: %w", err)}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// IsTLSError reports whether an error of a connection, or of a request over one, is about the
// certificate of the other side or the handshake.
func IsTLSError(err error) bool {
	var op *net.OpError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &verify), errors.As(err, &record), errors.As(err, &unknown):
		return true
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"): // an alert
		return true
	}
	return strings.Contains(err.Error(), "HTTP response to HTTPS client") || strings.HasPrefix(err.Error(), "tls: ")
}

// TLSField returns the field that an error of a connection is about, and the error in words of the
// config; it is empty if the error is not about TLS.
func TLSField(err error) (path string, said error) {
	var op *net.OpError
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case !IsTLSError(err):
		return "", err
	case errors.As(err, &unknown):
		return "tls.ca", errors.New("the certificate of the server is of an authority that is not trusted")
	case errors.As(err, &host):
		return "tls.server_name", host
	case errors.As(err, &record):
		return "tls", errors.New("the server does not offer TLS at this address")
	case errors.As(err, &op) && op.Op == "remote error":
		return "tls.cert", errors.New("the server requires a certificate of the client, or refuses the one that it got")
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "tls.ca", err
	}
	return "tls", err
}

// LintTLS is the Lint of kinds with a field tls.skip_verify: it warns of certificates
// that are not verified.
func LintTLS(specs []node.WrittenSpec) (list diag.List) {
	for _, s := range specs {
		if skip := s.Config.Field("tls").Field("skip_verify"); skip != nil && skip.Text.Code != "false" && !skip.Value.IsNull() {
			list.Add(s.Finding(skip.Pos, "tls.skip_verify", diag.Warningf(diag.CodeInsecure, "the certificate of the other side is not verified").
				WithHint("put the certificate of its authority into tls.ca")))
		}
	}
	return list
}
