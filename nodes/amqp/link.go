package amqp

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A link is one connection with a channel.
type link struct {
	conn     *amqp.Connection
	gate     *gate
	ch       *amqp.Channel
	closed   chan *amqp.Error      // has the reason when the channel has ended, and is closed
	short    atomic.Pointer[error] // why the broker takes no messages; nil if it does
	watching sync.WaitGroup
}

// watch notes that the broker takes no messages, because it lacks memory or disk, until the
// connection has ended. It says so to those who publish.
func (l *link) watch(blocks <-chan amqp.Blocking) {
	for b := range blocks {
		if !b.Active {
			l.short.Store(nil)
			continue
		}
		err := fmt.Errorf("the broker takes no messages: %s", b.Reason)
		l.short.Store(&err)
	}
}

// blocked returns why the broker takes no messages; nil if it does. There may be no link.
func (l *link) blocked() error {
	if l == nil {
		return nil
	}
	if err := l.short.Load(); err != nil {
		return *err
	}
	return nil
}

// abort ends a connection that is lost, or that the broker need not know the end of.
func (l *link) abort() {
	l.gate.Close()
	l.conn.Close() // returns as the network is gone; its error says so
	l.watching.Wait()
}

// close ends a connection. The broker has all that was sent, unless ctx ends before.
func (l *link) close(ctx context.Context) {
	l.gate.release()
	stop := context.AfterFunc(ctx, func() { l.gate.Close() })
	defer stop()
	if err := l.conn.CloseDeadline(time.Now().Add(closeTimeout)); err != nil {
		l.gate.Close() // it was lost before
	}
	l.watching.Wait()
}

// within calls f, which waits for the broker, and ends the connection if that takes too long.
func (l *link) within(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.gate.Close() })
	defer stop()
	err := f()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// reason returns why the channel has ended, which it has. It waits until the library says so.
func (l *link) reason() error {
	if err := <-l.closed; err != nil {
		return err
	}
	return amqp.ErrClosed
}
