package reference

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// settings are the fields that the kinds have in common.
func settings() schema.Object {
	return schema.Fields(
		schema.String("address").Required().Doc("Host and port of the server."),
		schema.String("password").Default(Password).Secret().Doc("What the server expects."),
	)
}

// A client is one connection. Send may be called concurrently with what reads.
type client struct {
	conn net.Conn
	in   *gob.Decoder
	work sync.WaitGroup
	lost chan struct{} // closed when nothing more comes
	mu   struct {
		sync.Mutex
		to  *bufio.Writer
		out *gob.Encoder
	}
}

// dial connects. Each frame that comes is given to take, on another goroutine.
func dial(ctx context.Context, cfg schema.Config, mode int, take func(frame)) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", cfg.String("address"))
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, in: gob.NewDecoder(bufio.NewReader(conn)), lost: make(chan struct{})}
	c.mu.to = bufio.NewWriter(conn)
	c.mu.out = gob.NewEncoder(c.mu.to)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends what waits below
	var answer frame
	err = c.send(frame{Op: opHello, Mode: mode, Text: cfg.String("password")})
	if err == nil {
		err = c.in.Decode(&answer)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err == nil && answer.Op != opHello {
		err = &stream.RefusedError{Field: "password", Err: errors.New(answer.Text)}
	}
	if err != nil {
		_ = conn.Close() // nothing was said yet
		return nil, err
	}
	c.work.Go(func() {
		defer close(c.lost)
		for {
			var f frame
			if c.in.Decode(&f) != nil {
				_ = conn.Close() // for what sends
				return
			}
			take(f)
		}
	})
	return c, nil
}

// send sends frames. The error is a [stream.ErrLost].
func (c *client) send(frames ...frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range frames {
		if err := c.mu.out.Encode(f); err != nil {
			return fmt.Errorf("%w: %w", stream.ErrLost, err)
		}
	}
	if err := c.mu.to.Flush(); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrLost, err)
	}
	return nil
}

// close ends the connection, and returns when nothing more is taken.
func (c *client) close() error {
	if c == nil {
		return nil
	}
	err := c.conn.Close()
	<-c.lost
	c.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // it was lost
	}
	return err
}
