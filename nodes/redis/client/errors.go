package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// outages are the errors by which a server says that it cannot do its work now.
var outages = []string{"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN", "NOAUTH", "WRONGPASS", "MOVED", "ASK"}

// conflicts are those by which the data refuse a change.
var conflicts = []string{"BUSYGROUP", "BUSYKEY"}

// Code returns the word that an error of a server begins with, in small letters, such as
// wrongtype; empty for another error.
func Code(err error) string {
	var e *node.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Describe returns an error that a server has answered with, or that is within an answer, as
// workflows see it.
func Describe(err error) error {
	text := err.Error()
	word, _, _ := strings.Cut(text, " ")
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '_' }) {
		word = "ERR" // the library leaves it out
	}
	e := &node.Error{Err: errors.New(text), Code: strings.ToLower(word)}
	switch {
	case slices.Contains(outages, word), strings.HasPrefix(text, "max number of clients reached"):
		e.Status, e.Outage = http.StatusServiceUnavailable, true
	case slices.Contains(conflicts, word):
		e.Status = http.StatusConflict
	default:
		e.Status, e.Permanent = http.StatusInternalServerError, true
	}
	return e
}

// Failure returns an error of a command as a node that is not a sink reports it.
func Failure(err error, timeout time.Duration) error {
	switch {
	case errors.Is(err, stream.ErrLost):
		return &node.Error{Err: err, Status: http.StatusServiceUnavailable, Code: "lost", Outage: true}
	case errors.Is(err, context.DeadlineExceeded):
		return &node.Error{Err: fmt.Errorf("no answer within %s", timeout), Status: http.StatusGatewayTimeout, Code: "timeout"}
	}
	return err
}

// explain says why connecting failed, and at which field if it is the config's.
func (s *Settings) explain(err error) error {
	refused := func(name, text string) error {
		return &stream.RefusedError{Field: name, Err: fmt.Errorf("%s: %s", s.Where(), text)}
	}
	var already *field.RefusedError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	text := err.Error()
	switch {
	case errors.As(err, &already):
		return err
	case strings.HasPrefix(text, "WRONGPASS"), strings.Contains(text, "invalid password"):
		return refused("password", "the server refuses the credentials")
	case strings.HasPrefix(text, "NOAUTH"):
		return refused("", "the server requires credentials: add password, and user if it is not the default user")
	case strings.HasPrefix(text, "DB index is out of range"):
		return refused("database", "the server has no such database")
	case strings.HasPrefix(text, "SELECT is not allowed in cluster mode"):
		return refused("database", "a cluster has only database 0")
	case strings.Contains(text, "cluster support disabled") && len(s.addresses) > 1:
		return refused("urls", "the servers are not a cluster: write one URL, or add sentinel")
	case errors.As(err, &unknown):
		return refused("tls.ca", "the certificate of the server is of an authority that is not trusted")
	case errors.As(err, &name):
		return refused("tls.server_name", name.Error())
	case errors.As(err, &invalid):
		return refused("tls.ca", invalid.Error())
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return refused("tls", "the server does not offer TLS")
	case strings.Contains(text, "remote error: tls: "):
		return refused("tls.cert", "the server requires a certificate of the client, or refuses the one that it got")
	}
	return fmt.Errorf("%s: %w: %w", s.Where(), stream.ErrLost, err)
}
