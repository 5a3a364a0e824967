package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// withConnection adds the fields that say how to connect, which all kinds have.
func withConnection(own ...*schema.Field) schema.Object {
	return schema.Fields(append(own,
		schema.String("url").Default("amqp://127.0.0.1:5672").Doc("The broker, with `amqps` for TLS. The path is the virtual host, such as `amqp://127.0.0.1/shop`; without a path, it is `/`. The URL has no credentials."),
		schema.String("user").Doc("The user, with `password`. Without it, `guest`, whom brokers let in from their own machine alone."),
		schema.String("password").Secret().Doc("The password of the user."),
		field.NewTLS("How the broker is trusted, with a URL of `amqps`."),
	)...)
}

// settings are how to connect. They are immutable.
type settings struct {
	url, host, vhost string
	user, password   string
	secure           bool
	tls              field.TLS
}

const (
	connectTimeout = 4 * time.Second
	heartbeat      = 10 * time.Second
	closeTimeout   = 250 * time.Millisecond // for the broker to confirm the end of a connection
)

// newSettings reads and checks the fields of withConnection.
func newSettings(c schema.Config) (*settings, error) {
	u, err := field.ParseURL(c.String("url"), "amqp", "amqps")
	if err == nil && (u.RawQuery != "" || strings.Contains(strings.TrimPrefix(u.EscapedPath(), "/"), "/")) {
		err = errors.New("behind the host, a URL has the name of a virtual host and no more")
	}
	if err != nil {
		return nil, c.Errorf("url", diag.CodeBadValue, "%v", err).WithHint("write one such as amqp://127.0.0.1:5672/shop, with %%2F for each slash in the name of a virtual host; credentials have fields of their own")
	}
	s := &settings{url: u.Redacted(), user: c.String("user"), password: c.String("password"), secure: u.Scheme == "amqps", vhost: "/"}
	port := "5672"
	if s.secure {
		port = "5671"
	}
	s.host = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	if u.Path != "" && u.Path != "/" {
		s.vhost = u.Path[1:]
	}
	if (s.user == "") != (s.password == "") {
		return nil, c.Errorf("", diag.CodeBadValue, "user and password belong together")
	}
	if c.Has("tls") && !s.secure {
		return nil, c.Errorf("tls", diag.CodeBadValue, "a URL of amqp has no TLS").WithHint("write a URL of amqps, or remove tls")
	}
	if s.tls, err = field.TLSOf(c); err != nil {
		return nil, err
	}
	return s, nil
}

// dial connects once, and opens a channel. The broker may send so many bytes ahead. The error
// is a *stream.RefusedError if trying again does not help.
func (s *settings) dial(ctx context.Context, ahead int64) (*link, error) {
	user := cmp.Or(s.user, "guest")
	config := amqp.Config{
		Vhost: s.vhost, Heartbeat: heartbeat, Properties: amqp.NewConnectionProperties(),
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: cmp.Or(s.password, "guest")}},
	}
	config.Properties.SetClientConnectionName("uniflow")
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l := new(link)
	stop := func() bool { return true }
	defer func() { stop() }()
	config.Dial = func(network, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, s.host)
		if err != nil {
			return nil, err
		}
		gate := newGate(conn, ahead)
		l.gate, stop = gate, context.AfterFunc(ctx, func() { gate.Close() })
		return gate, nil
	}
	target := url.URL{Scheme: "amqp", Host: s.host}
	if s.secure {
		target.Scheme = "amqps"
		var err error
		if config.TLSClientConfig, err = s.tls.Config(); err != nil {
			return nil, err
		}
		config.TLSClientConfig.MinVersion = tls.VersionTLS12
	}
	var err error
	if l.conn, err = amqp.DialConfig(target.String(), config); err == nil {
		if l.ch, err = l.conn.Channel(); err != nil {
			l.abort()
		}
	}
	if err != nil {
		if l.gate != nil {
			l.gate.Close()
		}
		return nil, s.explain(err)
	}
	l.closed = l.ch.NotifyClose(make(chan *amqp.Error, 1))
	blocks := l.conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	l.watching.Go(func() { l.watch(blocks) })
	return l, nil
}

// explain says why connecting failed, and at which field if it is the config's.
func (s *settings) explain(err error) error {
	refused := func(field, format string, args ...any) error {
		return &stream.RefusedError{Field: field, Err: fmt.Errorf(s.url+": "+format, args...)}
	}
	var answer *amqp.Error
	if errors.As(err, &answer) {
		switch {
		case errors.Is(err, amqp.ErrCredentials), answer.Code == amqp.AccessRefused && strings.Contains(answer.Reason, "LOGIN"):
			if s.user == "" {
				return refused("", "the broker does not let guest in from here: add user and password")
			}
			return refused("password", "the broker refuses the user or the password")
		case errors.Is(err, amqp.ErrVhost), answer.Code == amqp.NotAllowed, answer.Code == amqp.AccessRefused:
			return refused("url", "the virtual host %q does not exist, or the user may not use it", s.vhost)
		}
	}
	if errors.As(err, new(*stream.RefusedError)) {
		return err
	}
	if path, said := field.TLSField(err); path != "" && s.secure {
		return refused(path, "%v", said)
	}
	return fmt.Errorf("%s: %w", s.url, err)
}

// lostError is why a connection was lost.
func (s *settings) lostError(err error) error {
	if err == nil || errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("%s: %w", s.url, stream.ErrLost)
	}
	return fmt.Errorf("%s: %w: %w", s.url, stream.ErrLost, err)
}

// unlimited lets a writer read all that comes: confirmations.
const unlimited = math.MaxInt64
