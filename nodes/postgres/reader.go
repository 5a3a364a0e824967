package postgres

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A changeReader reads the changes that a slot keeps.
type changeReader struct {
	config    *pgconn.Config
	setup     setup
	snapshots bool
	maxLag    int64 // 0 sets none
	clock     node.Clock
	log       *slog.Logger
	side      side
	progress  *progress

	// Owned by the goroutine that reads.
	decoder  decoder
	link     *link
	snapshot *snapshot                      // nil without one under way
	missing  bool                           // the slot is to be made
	mine     uint32                         // the process of the server behind link
	server   pglogrepl.IdentifySystemResult // that link was connected to; empty at first

	waits atomic.Int64 // since when Read waits for the server, in ns; 0 if it does not
	quiet atomic.Bool  // the server has not answered
	lag   atomic.Int64

	reporting sync.Mutex // held while the server is told; before mu
	mu        struct {
		sync.Mutex
		stream  *link         // that changes come from; nil without one
		told    pglogrepl.LSN // what the server knows to be confirmed
		problem error         // why there are no changes
	}
	feedback struct {
		sync.Mutex
		begun, closed bool
		stop          func() bool
		running       sync.WaitGroup
	}
}

// Read waits for what comes first, and takes what was read ahead with it.
func (r *changeReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	err := r.read(ctx, room)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r.decoder.take(room), err
}

func (r *changeReader) read(ctx context.Context, room stream.Room) error {
	if r.missing {
		if err := r.make(ctx); err != nil {
			return lost(err)
		}
	}
	if r.snapshot != nil && !r.snapshot.read {
		stop := r.limit(ctx)
		err := r.snapshot.more(ctx, r.link, &r.decoder, room)
		if stop(); err != nil && !errors.Is(err, errOther) {
			return lost(err)
		}
		if err != nil || len(r.decoder.out) > 0 {
			return err
		}
	}
	if r.snapshot != nil {
		for !r.progress.done() {
			select {
			case <-r.progress.changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := r.finish(ctx); err != nil {
			return lost(err)
		}
	}
	return r.receive(ctx, room)
}

// limit ends reading from the connection when ctx ends.
func (r *changeReader) limit(ctx context.Context) (stop func() bool) {
	conn := r.link.Conn()
	return context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(past) }) // of a closed connection: reading has ended
}

// receive waits for the first change, and takes those that were read with it.
func (r *changeReader) receive(ctx context.Context, room stream.Room) error {
	conn := r.link.Conn()
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return lost(err)
	}
	stop := r.limit(ctx)
	defer func() { stop() }()
	r.waits.Store(r.clock.Now().UnixNano())
	defer r.waits.Store(0)
	for first, waited := true, false; r.decoder.reads(room); {
		if first && len(r.decoder.out) > 0 {
			first = false
			if !stop() {
				return ctx.Err()
			}
			if err := conn.SetReadDeadline(past); err != nil {
				return lost(err)
			}
		}
		msg, err := r.link.ReceiveMessage(context.Background())
		switch {
		case err != nil && pgconn.Timeout(err) && !r.link.IsClosed():
			if r.quiet.Load() {
				return lost(errors.New("the server is silent"))
			}
			// The end of a transaction follows its last change. Without it, a source that ends now
			// could not confirm the transaction, and it would come again.
			if !waited && len(r.decoder.out) > 0 && r.decoder.txn != nil && ctx.Err() == nil {
				waited = true
				if err := conn.SetReadDeadline(time.Now().Add(endWait)); err != nil {
					return lost(err)
				}
				continue
			}
			return ctx.Err()
		case err != nil:
			return lost(err)
		}
		if err := r.handle(ctx, msg); err != nil {
			return err
		}
	}
	return nil
}

// handle takes one message of the connection.
func (r *changeReader) handle(ctx context.Context, msg pgproto3.BackendMessage) error {
	switch m := msg.(type) {
	case *pgproto3.ErrorResponse:
		return lost(pgconn.ErrorResponseToPgError(m))
	case *pgproto3.CopyDone:
		return lost(errors.New("the server has ended the replication"))
	case *pgproto3.CopyData:
		if len(m.Data) == 0 {
			return lost(errors.New("the server sent an empty message"))
		}
		r.waits.Store(r.clock.Now().UnixNano())
		if m.Data[0] == pglogrepl.PrimaryKeepaliveMessageByteID {
			alive, err := pglogrepl.ParsePrimaryKeepaliveMessage(m.Data[1:])
			if err != nil {
				return lost(err)
			}
			r.progress.hear(alive.ServerWALEnd)
			if alive.ReplyRequested {
				return r.report(false)
			}
			return nil
		}
		x, err := pglogrepl.ParseXLogData(m.Data[1:])
		if err != nil {
			return lost(err)
		}
		return r.decoder.receive(ctx, x.WALData)
	}
	return nil
}

// Settle implements [stream.Reader].
func (r *changeReader) Settle(_ context.Context, s stream.Settled) error {
	for _, m := range s.Marks {
		r.progress.settle(m.Offset)
	}
	r.mu.Lock()
	idle := r.mu.stream == nil
	r.mu.Unlock()
	if idle { // of a snapshot, or between two connections
		return nil
	}
	return r.report(false)
}

// endWait is how long the changes of a transaction wait for more of it, or for its end.
const endWait = 100 * time.Millisecond

// Fields implements [stream.Reader].
func (r *changeReader) Fields(m *stream.Message, b *value.MapBuilder) {
	o := m.Token.(*origin)
	lsn := o.lsn.String()
	b.Set("id", value.String(lsn+":"+strconv.Itoa(o.index)))
	b.Set("lsn", value.String(lsn))
	if o.xid != 0 {
		b.Set("xid", value.Int(int64(o.xid)))
	}
	if o.table != "" {
		b.Set("table", value.String(o.table))
	}
	if o.part > 0 {
		b.Set("part", value.Int(int64(o.part)))
		b.Set("partial", value.Bool(o.partial))
	}
}

// Close ends the connection; a slot stays on the server.
func (r *changeReader) Close(ctx context.Context) error {
	r.endFeedback()
	if r.snapshot != nil && r.snapshot.read && r.progress.done() {
		if err := r.snapshot.finish(ctx, r.link, &r.setup); err != nil {
			r.log.Warn("the snapshot is read, and its slot is not made: it begins again at the next start", "error", err)
		}
	}
	err := r.report(false)
	if r.link != nil && r.snapshot == nil && err == nil {
		r.link.endStream(ctx)
	}
	r.drop()
	r.side.close()
	if r.setup.had {
		r.log.Info("the slot stays, and keeps WAL on the disk of the server until it is read again or dropped", "slot", r.setup.slot, "drop", dropSlot(r.setup.slot))
	}
	return err
}
