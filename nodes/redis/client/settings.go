// Package client connects to Redis by the settings of a node, for all kinds that need it.
//
// [Fields] are the fields of a connection, and [NewSettings] reads them. A [Conn] is shared by
// the nodes with equal settings; [Conn.Do] runs a command. Errors say what a workflow can do
// about them: [stream.ErrLost], a [*node.Error] of the server, or that of a context.
//
// The package must not know what commands are for, nor any kind.
package client

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

const defaultURL = "redis://127.0.0.1:6379"

// Fields adds the fields that say how to connect. A kind with them has the Lint
// [field.LintTLS].
func Fields(own ...*schema.Field) schema.Object {
	return schema.Fields(append(own,
		schema.Strings("urls").Default([]string{defaultURL}).Doc("The server, such as `redis://127.0.0.1:6379`, or `rediss://` for TLS. Several are servers of one cluster, or sentinels with `sentinel`. A URL has no credentials."),
		schema.String("user").Doc("The user, with `password`; unset, the default user."),
		schema.String("password").Secret().Doc("The password."),
		schema.Int("database").Default(0).Range(0, 1_000_000).Doc("The number of the database. A cluster has only 0."),
		schema.Group("sentinel", schema.Fields(
			schema.String("master").Required().Doc("The name of the master that the sentinels watch."),
			schema.String("user").Doc("The user of the sentinels, with `password`."),
			schema.String("password").Secret().Doc("The password of the sentinels."),
		)).Doc("Says that `urls` are sentinels, which tell where the master is."),
		field.NewTLS("How servers are trusted. With any of these fields, or a URL of `rediss`, a connection without TLS is refused."),
	)...)
}

// Settings are how to connect. They are immutable once a connection is open.
type Settings struct {
	MaxAnswer int64 // bytes; a larger answer is an error, and ends its connection. 0 does not limit them.

	addresses                            []string // host and port
	user, password                       string
	database                             int
	master, sentinelUser, sentinelSecret string
	tls                                  field.TLS
	secure                               bool
}

// NewSettings reads and checks the fields of [Fields]. It connects to nothing.
func NewSettings(c schema.Config) (*Settings, error) {
	s := &Settings{user: c.String("user"), password: c.String("password"), database: int(c.Int("database")), secure: c.Has("tls")}
	plain := 0
	for _, text := range c.Strings("urls") {
		address, secure, problem := parseURL(text)
		if problem != "" {
			return nil, c.Errorf("urls", diag.CodeBadValue, "%s", problem).WithHint("write a URL such as %s; credentials and the database have fields of their own", defaultURL)
		}
		if !secure {
			plain++
		}
		s.secure = s.secure || secure
		s.addresses = append(s.addresses, address)
	}
	switch {
	case len(s.addresses) == 0:
		return nil, c.Errorf("urls", diag.CodeBadValue, "no server").WithHint("write one such as %s", defaultURL)
	case plain > 0 && plain < len(s.addresses):
		return nil, c.Errorf("urls", diag.CodeBadValue, "some servers are of rediss, and some of redis").WithHint("write rediss for all of them")
	case s.user != "" && s.password == "":
		return nil, c.Errorf("user", diag.CodeBadValue, "a user needs a password").WithHint("add password")
	}
	if c.Has("sentinel") {
		group := c.Group("sentinel")
		s.master, s.sentinelUser, s.sentinelSecret = group.String("master"), group.String("user"), group.String("password")
		if s.master == "" {
			return nil, group.Errorf("master", diag.CodeBadValue, "is empty").WithHint("write the name that the sentinels have for it, such as mymaster")
		}
	}
	if len(s.addresses) > 1 && s.master == "" && s.database != 0 {
		return nil, c.Errorf("database", diag.CodeBadValue, "a cluster has only database 0").WithHint("remove database, or all urls but one")
	}
	var err error
	s.tls, err = field.TLSOf(c)
	return s, err
}

// ParseURL reads settings from a URL, such as redis://user:password@127.0.0.1:6379/0, for a field
// that has all of it. The error does not show it.
func ParseURL(text string) (*Settings, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("not the URL of a server")
	}
	s := new(Settings)
	if u.User != nil {
		s.user = u.User.Username()
		s.password, _ = u.User.Password()
		u.User = nil
	}
	if s.user != "" && s.password == "" {
		return nil, errors.New("a user needs a password")
	}
	if number := strings.Trim(u.Path, "/"); number != "" {
		n, err := strconv.ParseUint(number, 10, 20)
		if err != nil {
			return nil, errors.New("the path of the URL must be the number of a database")
		}
		s.database, u.Path = int(n), ""
	}
	address, secure, problem := parseURL(u.String())
	if problem != "" {
		return nil, errors.New(problem)
	}
	s.addresses, s.secure = []string{address}, secure
	return s, nil
}

// parseURL returns the address of a server, or what is wrong with its URL, without showing it.
func parseURL(text string) (address string, secure bool, problem string) {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return "", false, "not the URL of a server"
	case u.User != nil:
		return "", false, "a URL must not contain credentials"
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return "", false, "want a URL of redis or rediss"
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return "", false, "a URL must not contain a database or options"
	}
	port := cmp.Or(u.Port(), "6379")
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false, "a port is a number from 1 to 65535"
	}
	return net.JoinHostPort(u.Hostname(), port), u.Scheme == "rediss", ""
}

// poolKey distinguishes settings, and shows nothing of them.
func (s *Settings) poolKey() string { return "redis " + field.Sum(*s) }

// Where names the servers, for messages.
func (s *Settings) Where() string { return strings.Join(s.addresses, ", ") }

// connectTimeout bounds connecting to one server, and its sign of life.
const connectTimeout = 4 * time.Second
