package stream

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
)

// A Lookup looks for what a node names, such as a bucket, until it is found: with the waits
// of a source or a sink that connects. It is for nodes that are
// neither. Make one with [NewLookup] in Find of a [node.Finder], and close it in Close. A nil
// Lookup has nothing to look for.
type Lookup struct {
	connection connection
	made       atomic.Uint64
	stop       context.CancelFunc
	work       sync.WaitGroup
}

// NewLookup calls find, for at most 5 s, and again in the background until it returns nil. One
// goroutine at a time calls find. ref and log belong to the node. The error is a
// *RefusedError of find, or the error of ctx.
func NewLookup(ctx context.Context, ref node.Ref, log *slog.Logger, find func(context.Context) error) (*Lookup, error) {
	l := new(Lookup)
	l.connection = connection{connect: find, made: &l.made, clock: node.SystemClock{}, log: log.With("at", ref.Pos.String()), logTexts: logTexts{"not found yet", "found"}}
	if err := l.connection.start(ctx); err != nil {
		return nil, err
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	if !l.connection.open {
		l.work.Go(func() {
			// The error comes from the function, which returns none.
			_ = l.connection.keep(ctx, func() (used bool, err error) { return true, nil })
		})
	}
	return l, nil
}

// Ready returns why nothing has been found yet; see [node.Readier]. Any goroutine may call it.
func (l *Lookup) Ready() error {
	if l == nil || l.connection.connected() {
		return nil
	}
	return l.connection.reason()
}

// Close ends the lookup, and waits for find.
func (l *Lookup) Close() error {
	if l != nil {
		l.stop()
		l.work.Wait()
	}
	return nil
}
