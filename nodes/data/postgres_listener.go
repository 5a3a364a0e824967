package data

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Listen connects to PostgreSQL, and calls got for each notification of a channel, until the connection is lost or
// ctx ends. It calls up when it listens, and reads no more while got runs.
func Listen(ctx context.Context, config *pgconn.Config, channel string, up func(), got func(payload string)) error {
	config = config.Copy()
	var come []string // owned by this goroutine, which calls the function
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { come = append(come, n.Payload) }
	c, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return &unreachableError{err}
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamCancelGrace)
		defer cancel()
		_ = c.Close(closing) // its error is of no use: nothing is under way
	}()
	if _, err := c.Exec(ctx, `LISTEN "`+strings.ReplaceAll(channel, `"`, `""`)+`"`).ReadAll(); err != nil {
		return err
	}
	up()
	for {
		for _, payload := range come {
			got(payload)
		}
		come = come[:0]
		wait, cancel := context.WithTimeout(ctx, listenCheck)
		err := c.WaitForNotification(wait)
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && pgconn.Timeout(err) && !c.IsClosed() { // is it there?
			asks, cancel := context.WithTimeout(ctx, listenTimeout)
			_, err = c.Exec(asks, "SELECT 1").ReadAll()
			cancel()
		}
		if err != nil {
			return &unreachableError{err}
		}
	}
}

// listenCheck is after what silence the server is asked whether it is there, and listenTimeout how long it may take
// to answer.
const listenCheck, listenTimeout = 15 * time.Second, 10 * time.Second
