// Package client calls the tools of servers of the Model Context Protocol: over HTTP, or
// of a program that it starts and speaks with over its standard input and output.
//
// A kind puts [Fields] into its config, reads them with [New] when it is made, and opens
// a [Client] with [Settings.Open] when it is opened. The package must not know what the
// answers are for.
package client

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// Fields are what says which server it is, in the config of a node or in a group of it.
func Fields() []*schema.Field {
	return []*schema.Field{
		schema.String("url").Doc("Where the server is, such as `https://tools.example.com/mcp`. Or write `command`."),
		schema.String("token").Secret().Doc("The token for bearer authentication at `url`."),
		schema.Any("header").Doc("Headers of each request to `url`: a map of text. A key belongs into a variable that is secret."),
		field.NewTLS("How a server is trusted over HTTPS. The files are read when the node starts."),
		schema.Strings("command").Doc("A program and its arguments that is a server on its standard input and output. It needs `--allow-exec`. It is started when the first call needs it, started again when it has ended, and ended with the node."),
		schema.Any("environment").Secret().Doc("Variables of the environment of the program: a map of text. Of those of this process it gets only `PATH`, `HOME`, `USER`, `LANG`, `TMPDIR` and, on Windows, what programs cannot run without."),
		schema.String("dir").Doc("The folder that the program runs in; by default that of this process."),
		schema.Duration("connect_timeout").Default("10s").Doc("How long it may take to reach the server, or to start the program, and to agree on the protocol."),
		schema.Duration("timeout").Default("60s").Doc("How long a call may take, connecting included. 0 means no limit."),
		schema.Bytes("answer_bytes").Default("8MiB").Range(1<<10, 1<<30).Doc("The longest answer."),
	}
}

// Settings say which server a client calls.
type Settings struct {
	config  schema.Config
	log     *slog.Logger
	owner   string
	url     string
	label   string // the server, for messages
	header  http.Header
	tls     field.TLS
	command []string
	permit  func(key string) error // whether the program may be started
	env     []string               // NAME=TEXT, sorted
	dir     string
	connect time.Duration
	timeout time.Duration
	most    int64 // bytes of an answer
}

// New reads the fields, and checks what needs no connection. The error is a
// [*diag.Diagnostic] at its field.
func New(init *node.Init, c schema.Config) (*Settings, error) {
	s := &Settings{
		config: c, permit: init.PermitProgram, log: init.Log, owner: init.Node.Namespace + "/" + init.Node.String(),
		url: c.String("url"), command: c.Strings("command"), dir: c.String("dir"),
		connect: c.Duration("connect_timeout"), timeout: c.Duration("timeout"), most: c.Int("answer_bytes"),
	}
	if len(s.command) == 1 && strings.Contains(s.command[0], " ") {
		if _, err := os.Stat(s.command[0]); err != nil {
			init.AddWarning(c.Errorf("command", diag.CodeNoEffect, "the whole text is the name of a program, with its blanks").WithHint("write a list: command: [PROGRAM, ARGUMENT]"))
		}
	}
	for _, check := range []func() error{s.setPlace, s.setHeader, s.setTLS, s.setEnvironment} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Settings) setPlace() error {
	c := s.config
	const hint = "write url: https://tools.example.com/mcp, or command: [PROGRAM, ARGUMENT]"
	switch {
	case s.url != "" && c.Has("command"):
		return c.Errorf("command", diag.CodeBadValue, "both a url and a command").WithHint(hint)
	case s.url == "" && !c.Has("command"):
		return c.Errorf("", diag.CodeBadValue, "neither a url nor a command").WithHint(hint)
	case s.url == "" && (len(s.command) == 0 || s.command[0] == ""):
		return c.Errorf("command", diag.CodeBadValue, "the program has no name").WithHint(hint)
	}
	for _, field := range []string{"token", "header", "tls"} {
		if s.url == "" && c.Has(field) {
			return c.Errorf(field, diag.CodeBadValue, "a program is not called over HTTP").WithHint("remove it, or write environment: {NAME: …}")
		}
	}
	for _, field := range []string{"environment", "dir"} {
		if s.url != "" && c.Has(field) {
			return c.Errorf(field, diag.CodeBadValue, "the server at a url is not started here").WithHint("remove it, or write header or token")
		}
	}
	if s.url == "" {
		s.label = "program " + s.command[0]
		return nil
	}
	u, err := field.ParseURL(s.url, "http", "https")
	switch {
	case errors.Is(err, field.ErrCredentials):
		return c.Errorf("url", diag.CodeBadValue, "%v", err).WithHint("write token: …")
	case err != nil:
		return c.Errorf("url", diag.CodeBadValue, "%v", err).WithHint("write one such as https://tools.example.com/mcp")
	}
	s.label = u.Scheme + "://" + u.Host
	return nil
}

func (s *Settings) setHeader() error {
	s.header = make(http.Header)
	if d := httpclient.SetHeader(s.header, s.config); d != nil {
		return d
	}
	token := s.config.String("token")
	if !httpguts.ValidHeaderFieldValue(token) {
		return s.config.Errorf("token", diag.CodeBadValue, "the token has control characters").WithHint("check the variable that it comes from")
	}
	if token != "" {
		s.header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

func (s *Settings) setTLS() (err error) {
	s.tls, err = field.TLSOf(s.config)
	return err
}

func (s *Settings) setEnvironment() error {
	bad := s.config.Errorf("environment", diag.CodeBadValue, "must be a map of text").WithHint("write one such as {API_TOKEN: …}")
	v := s.config.Value("environment")
	if v.Kind() != value.KindMap && !v.IsNull() {
		return bad
	}
	for name, elem := range v.Fields() {
		text, ok := elem.AsString()
		if !ok || name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(text, "\x00") {
			return bad
		}
		s.env = append(s.env, name+"="+text)
	}
	slices.Sort(s.env)
	return nil
}
