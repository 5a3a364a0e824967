package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A client is a node's use of the shared connection, from Open to Close.
type client struct {
	settings *settings
	config   schema.Config
	pool     *node.Pool
	log      *slog.Logger
	timeout  time.Duration // of an operation
	most     int           // operations of one process at a time

	conn    *connection
	release func() error
}

// withClient adds the fields that all kinds with a client have.
func withClient(own ...*schema.Field) schema.Object {
	return withConnection(append(own,
		schema.Duration("timeout").Default("5s").Range(float64(time.Millisecond), float64(24*time.Hour)).Doc("How long the answer may take. It uses the real clock, also in tests that set another one."),
		schema.Int("max_in_flight").Default(1024).Range(1, 1_000_000).Doc("How many packets of one process may wait for their answers."),
	)...)
}

func newClient(init *node.Init) (*client, error) {
	c := init.Config
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	return &client{settings: s, config: c, pool: init.Pool, log: init.Log, timeout: c.Duration("timeout"), most: int(c.Int("max_in_flight"))}, nil
}

// openTimeout is how long a start waits for a server. After that, connecting goes on in
// the background.
const openTimeout = 5 * time.Second

// Open connects, or takes the connection of another node with the same settings.
func (n *client) Open(ctx context.Context) error {
	var err error
	if n.conn, n.release, err = n.settings.acquire(n.pool); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	_, err = n.conn.live(ctx)
	var refused *stream.RefusedError
	switch {
	case errors.As(err, &refused):
		return errors.Join(field.Place(refused, n.config), n.release())
	case err != nil:
		n.log.Warn("connecting failed", "error", err)
	}
	return nil
}

// Ready implements [node.Readier].
func (n *client) Ready() error {
	_, err := n.conn.now()
	return err
}

// Close lets go of the connection, which others may use.
func (n *client) Close() error { return n.release() }

// Concurrency implements [node.Concurrent].
func (n *client) Concurrency() int { return n.most }

// failure returns an error of a request or an operation as workflows see it.
func (n *client) failure(err error, subject string) error {
	var described *node.Error
	switch {
	case errors.As(err, &described):
		return err
	case errors.Is(err, nats.ErrNoResponders):
		return &node.Error{Err: fmt.Errorf("nothing answers requests to %q", subject), Status: 503, Code: "no_responders", Outage: true}
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return &node.Error{Err: fmt.Errorf("no answer within %s", n.timeout), Status: 504, Code: "timeout"}
	case errors.Is(err, stream.ErrLost), errors.Is(err, nats.ErrConnectionClosed):
		return &node.Error{Err: err, Status: 503, Code: "lost", Outage: true}
	}
	return err
}

// bodies are how the bodies of a node are encoded and decoded.
type bodies struct{ encode, decode string }

// bodyFields say so.
func bodyFields() []*schema.Field {
	return []*schema.Field{
		schema.Enum("encode", "json", "text", "raw").Default("json").Doc("How a body is sent: as JSON; as text, which is JSON for lists and maps; or as it is, for text and binary."),
		schema.Enum("decode", "json", "text", "raw").Default("json").Doc("How a received body is decoded: as JSON, text or binary. With JSON, an empty body is null."),
	}
}

func newBodies(c schema.Config) bodies { return bodies{c.String("encode"), c.String("decode")} }

// bytes encodes a body.
func (b bodies) bytes(v value.Value) ([]byte, error) {
	switch b.encode {
	case "text":
		return []byte(v.String()), nil
	case "json":
		return v.AppendJSON(nil)
	}
	if data, ok := v.AsBinary(); ok {
		return data, nil
	}
	text, ok := v.AsString()
	if !ok {
		return nil, node.Unusable("encode", fmt.Errorf("body: must be text or binary, got %s; encode: json takes any value", v.Kind()))
	}
	return []byte(text), nil
}

// value decodes a body.
func (b bodies) value(data []byte) (value.Value, error) {
	switch {
	case b.decode == "text":
		return value.String(string(data)), nil
	case b.decode == "raw":
		return value.Binary(data), nil
	case len(data) == 0:
		return value.Null(), nil
	}
	v, err := value.ParseJSON(data)
	if err != nil {
		return v, &node.Error{Err: fmt.Errorf("the answer is not JSON: %w", err), Status: 502, Code: "decode", Data: value.String(string(data))}
	}
	return v, nil
}
