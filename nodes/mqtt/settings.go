package mqtt

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
	"unicode/utf8"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// withConnection adds the fields that say how to connect, which all kinds have.
func withConnection(own ...*schema.Field) schema.Object {
	return schema.Fields(append(own,
		schema.String("url").Default("mqtt://127.0.0.1:1883").Doc("The broker, with `mqtts` for TLS. The URL has no credentials."),
		schema.Enum("version", "5", "3.1.1").Default("5").Doc("The version of MQTT."),
		schema.String("user").Doc("The user, with `password`."),
		schema.String("password").Secret().Doc("The password of the user."),
		field.NewTLS("How the broker is trusted, with a URL of `mqtts`."),
	)...)
}

// settings are how to connect. They are immutable.
type settings struct {
	url, host, name string
	user, password  string
	secure          bool
	tls             field.TLS
	wire            wire
	five            bool // MQTT 5
}

const (
	connectTimeout = 4 * time.Second
	keepAlive      = 10 * time.Second
)

// newSettings reads and checks the fields of withConnection.
func newSettings(c schema.Config) (*settings, error) {
	u, err := field.ParseURL(c.String("url"), "mqtt", "mqtts")
	if err == nil && (u.RawQuery != "" || u.Path != "" && u.Path != "/") {
		err = errors.New("the URL of a broker has no path")
	}
	if err != nil {
		return nil, c.Errorf("url", diag.CodeBadValue, "%v", err).WithHint("write one such as mqtt://127.0.0.1:1883; credentials have fields of their own")
	}
	s := &settings{url: u.Redacted(), name: u.Hostname(), user: c.String("user"), password: c.String("password"), secure: u.Scheme == "mqtts", five: c.String("version") == "5", wire: wire3{}}
	port := "1883"
	if s.secure {
		port = "8883"
	}
	s.host = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	if s.five {
		s.wire = wire5{}
	}
	if s.user == "" && s.password != "" {
		return nil, c.Errorf("password", diag.CodeBadValue, "a password belongs to a user").WithHint("add user")
	}
	if c.Has("tls") && !s.secure {
		return nil, c.Errorf("tls", diag.CodeBadValue, "a URL of mqtt has no TLS").WithHint("write a URL of mqtts, or remove tls")
	}
	if s.tls, err = field.TLSOf(c); err != nil {
		return nil, err
	}
	return s, nil
}

// checkClientID returns the error of the field client_id.
func checkClientID(c schema.Config) error {
	id := c.String("client_id")
	if c.Has("client_id") && (id == "" || len(id) > longest || !utf8.ValidString(id)) {
		return c.Errorf("client_id", diag.CodeBadValue, "want a name that the broker knows the session by").WithHint("write one such as shop-1")
	}
	return nil
}

// longest is how many bytes a text of MQTT has at most.
const longest = 65535

// dial opens a connection.
func (s *settings) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.host)
	if err != nil || !s.secure {
		return conn, err
	}
	config, err := s.tls.Config()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	config.ServerName, config.MinVersion = cmp.Or(config.ServerName, s.name), tls.VersionTLS12
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// refusal says why a broker has refused a connection.
func (s *settings) refusal(c *packets.Connack) error {
	refused := func(field, text string) error {
		return &stream.RefusedError{Field: field, Err: fmt.Errorf("%s: %s", s.url, text)}
	}
	switch c.ReasonCode {
	case packets.ConnackBadUsernameOrPassword, packets.ConnackNotAuthorized, packets.ConnackBanned:
		if s.user == "" {
			return refused("", "the broker requires credentials: add user and password")
		}
		return refused("password", "the broker refuses the user or the password")
	case packets.ConnackUnsupportedProtocolVersion:
		return refused("version", "the broker does not speak this version of MQTT")
	case packets.ConnackInvalidClientID:
		return refused("client_id", "the broker does not take this client_id")
	}
	text := reasonText(c.ReasonCode, c.Properties)
	return fmt.Errorf("%s: the broker refuses the connection: %s", s.url, text)
}

// explain says why connecting failed.
func (s *settings) explain(err error) error {
	if errors.As(err, new(*stream.RefusedError)) || errors.Is(err, stream.ErrLost) {
		return err // it says where
	}
	if path, said := field.TLSField(err); path != "" && s.secure {
		return &stream.RefusedError{Field: path, Err: fmt.Errorf("%s: %w", s.url, said)}
	}
	return fmt.Errorf("%s: %w", s.url, err)
}

func (s *settings) lostError(err error) error {
	if errors.Is(err, stream.ErrLost) {
		return err
	}
	return fmt.Errorf("%s: %w: %w", s.url, stream.ErrLost, err)
}

// reasonText returns the text of a reason code, and the one of the broker if there is one.
func reasonText(code byte, p *packets.Properties) string {
	text := reasons(code)
	if p != nil && p.ReasonString != "" {
		text += ": " + p.ReasonString
	}
	return text
}

func reasons(code byte) string {
	switch code {
	case 0x80:
		return "unspecified error"
	case 0x82:
		return "protocol error"
	case 0x83:
		return "the broker does not take it"
	case 0x87:
		return "not authorized"
	case 0x88:
		return "the broker is unavailable"
	case 0x89:
		return "the broker is busy"
	case 0x8b:
		return "the broker stops"
	case 0x8d:
		return "the broker has heard nothing in time"
	case 0x8e:
		return "another client has connected with the same client_id"
	case 0x8f:
		return "not a topic filter"
	case 0x90:
		return "not a topic"
	case 0x93:
		return "more messages than the broker takes at a time"
	case 0x95:
		return "the packet is too large"
	case 0x97:
		return "the quota is exceeded"
	case 0x99:
		return "the body is not what its format says"
	case 0x9a:
		return "the broker does not keep retained messages"
	case 0x9b:
		return "the broker does not support this qos"
	case 0x9e:
		return "the broker does not support shared subscriptions"
	case 0xa2:
		return "the broker does not support wildcards"
	}
	return fmt.Sprintf("reason %#x", code)
}
