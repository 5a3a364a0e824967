package nats

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// withConnection adds the fields that say how to connect, which all kinds have.
func withConnection(own ...*schema.Field) schema.Object {
	return schema.Fields(append(own,
		schema.Strings("urls").Default([]string{nats.DefaultURL}).Doc("The servers of one cluster, such as `nats://127.0.0.1:4222`, or with `tls`, `ws` or `wss`. A URL has no credentials."),
		schema.String("user").Doc("The user, with `password`."),
		schema.String("password").Secret().Doc("The password of the user."),
		schema.String("token").Secret().Doc("A token, instead of a user."),
		schema.String("nkey").Doc("The path of a file with the seed of an nkey, instead of a user."),
		schema.String("credentials").Doc("The path of a file of credentials (a JWT and a seed), instead of a user. It is read at each connect."),
		field.NewTLS("How servers are trusted. With any of these fields, or a URL of `tls` or `wss`, a connection without TLS is refused."),
	)...)
}

// settings are how to connect. They are immutable, and comparable by their key.
type settings struct {
	urls                                     []string
	user, password, token, nkey, credentials string
	tls                                      field.TLS
	secure                                   bool
	given                                    string // the field of the credentials; "user" without
}

// connectTimeout bounds connecting to one server.
const connectTimeout = 4 * time.Second

// newSettings reads and checks the fields of withConnection.
func newSettings(c schema.Config) (*settings, error) {
	s := &settings{
		urls: c.Strings("urls"), user: c.String("user"), password: c.String("password"), token: c.String("token"),
		nkey: c.String("nkey"), credentials: c.String("credentials"),
		secure: c.Has("tls"), given: "user",
	}
	if len(s.urls) == 0 {
		return nil, c.Errorf("urls", diag.CodeBadValue, "no server").WithHint("write one such as %s", nats.DefaultURL)
	}
	for _, text := range s.urls {
		if problem := checkURL(text); problem != "" {
			return nil, c.Errorf("urls", diag.CodeBadValue, "%s", problem).WithHint("write a URL such as nats://127.0.0.1:4222; credentials have fields of their own")
		}
	}
	var ways []string
	for _, name := range []string{"user", "token", "nkey", "credentials"} {
		if c.String(name) != "" {
			ways = append(ways, name)
			s.given = name
		}
	}
	if len(ways) > 1 {
		return nil, c.Errorf(ways[1], diag.CodeBadValue, "%s and %s are two ways to log in", ways[0], ways[1]).WithHint("keep one of them")
	}
	if s.user != "" {
		s.given = "password"
	}
	if (s.user == "") != (s.password == "") {
		return nil, c.Errorf("", diag.CodeBadValue, "user and password belong together")
	}
	var err error
	if s.tls, err = field.TLSOf(c); err != nil {
		return nil, err
	}
	return s, nil
}

// checkURL returns what is wrong with the URL of a server, without showing it.
func checkURL(text string) string {
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return "not the URL of a server"
	case u.User != nil:
		return "a URL must not contain credentials"
	}
	if port, err := strconv.ParseUint(cmp.Or(u.Port(), "4222"), 10, 16); err != nil || port == 0 {
		return "a port is a number from 1 to 65535"
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
		return ""
	}
	return "want a URL of nats, tls, ws or wss"
}

// poolKey distinguishes settings, and shows nothing of them.
func (s *settings) poolKey() string { return "nats " + field.Sum(*s) }

// dial connects once. lost is called when the connection has ended: the library does not
// connect again by itself. refused gets the errors that the server reports meanwhile. Both
// are called on a goroutine of the library. The error is a *stream.RefusedError if trying
// again does not help.
func (s *settings) dial(ctx context.Context, lost func(), refused func(error)) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("uniflow"), nats.NoReconnect(), nats.Timeout(connectTimeout), nats.PingInterval(20 * time.Second),
		nats.SetCustomDialer(contextDialer{ctx}), nats.ClosedHandler(func(*nats.Conn) { lost() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused(err) }),
	}
	switch {
	case s.user != "":
		options = append(options, nats.UserInfo(s.user, s.password))
	case s.token != "":
		options = append(options, nats.Token(s.token))
	case s.credentials != "":
		options = append(options, nats.UserCredentials(s.credentials))
	case s.nkey != "":
		key, err := nats.NkeyOptionFromSeed(s.nkey)
		if err != nil {
			return nil, &stream.RefusedError{Field: "nkey", Err: errors.New("the file cannot be read, or is not the seed of an nkey")}
		}
		options = append(options, key)
	}
	if s.secure {
		config, err := s.tls.Config()
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(config))
	}
	if s.credentials != "" {
		if _, err := os.Stat(s.credentials); err != nil {
			return nil, &stream.RefusedError{Field: "credentials", Err: err}
		}
	}
	conn, err := nats.Connect(strings.Join(s.urls, ","), options...)
	if err != nil {
		return nil, s.explain(err)
	}
	return conn, nil
}

type contextDialer struct{ ctx context.Context }

// Dial implements [nats.CustomDialer].
func (d contextDialer) Dial(network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: connectTimeout}).DialContext(d.ctx, network, address)
}

// explain says why connecting failed, and at which field if it is the config's.
func (s *settings) explain(err error) error {
	refused := func(field, text string) error {
		return &stream.RefusedError{Field: field, Err: fmt.Errorf("%s: %s", strings.Join(s.urls, ", "), text)}
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		if s.given == "user" {
			return refused("", "the server requires credentials: add user and password, token, nkey or credentials")
		}
		return refused(s.given, "the server refuses the credentials")
	case errors.Is(err, nats.ErrSecureConnRequired):
		return refused("urls", "the server requires TLS: write a URL of tls, or add tls")
	case errors.Is(err, nats.ErrSecureConnWanted):
		return refused("tls", "the server does not offer TLS")
	case errors.As(err, &unknown):
		return refused("tls.ca", "the certificate of the server is of an authority that is not trusted")
	case errors.As(err, &name):
		return refused("tls.server_name", name.Error())
	case errors.As(err, &invalid):
		return refused("tls.ca", invalid.Error())
	case strings.Contains(err.Error(), "remote error: tls: "), strings.Contains(err.Error(), "closed by remote after TLS handshake"):
		return refused("tls.cert", "the server requires a certificate of the client, or refuses the one that it got")
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return &stream.RefusedError{Field: s.given, Err: err}
	}
	return fmt.Errorf("%s: %w", strings.Join(s.urls, ", "), err)
}
