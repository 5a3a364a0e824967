package redis

import (
	"errors"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
)

// What the readers of streams, lists and channels have in common.

// answerTimeout is how long a server may take for an answer.
const answerTimeout = 10 * time.Second

// keepConn ends a Connect: kept is the connection of a reader that has succeeded before, nil at
// first, and conn the one of this time. A connection that has not been of use is closed.
func keepConn(kept **client.Conn, conn *client.Conn, err error) error {
	var refused *stream.RefusedError
	switch {
	case err == nil:
		*kept = conn
		return nil
	case *kept == nil:
		return errors.Join(err, conn.Close())
	case errors.As(err, &refused):
		return refused.Err // it may go away: it was right before
	}
	return err
}

// lostError makes of any error of a command one after which the reader connects again, which
// finds out what is wrong.
func lostError(s *client.Settings, err error) error {
	if err == nil || errors.Is(err, stream.ErrLost) {
		return err
	}
	return fmt.Errorf("%s: %w: %w", s.Where(), stream.ErrLost, err)
}

// signal wakes a Read.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it has one
	}
}

// typeError refuses a key of another type, and a user that must not use it.
func typeError(err error, field, key, want string) error {
	switch client.Code(err) {
	case "wrongtype":
		return &stream.RefusedError{Field: field, Err: fmt.Errorf("%s is the key of something else than a %s", key, want)}
	case "noperm":
		return &stream.RefusedError{Field: "user", Err: err}
	}
	return err
}
