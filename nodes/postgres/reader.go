package postgres

import (
	"context"
	"errors"
	"fmt"
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

// Connect implements [stream.Reader].
func (r *changeReader) Connect(ctx context.Context, _ stream.Host) error {
	r.drop()
	err := r.connect(ctx)
	if err != nil {
		r.drop()
	}
	if r.because(err); err == nil {
		r.beginFeedback()
	}
	if r.missing && err == nil { // not ready before there is a slot, or changes of that time are left out
		r.because(errMaking)
	}
	return err
}

func (r *changeReader) connect(ctx context.Context) error {
	l, err := dial(ctx, r.config, map[string]string{"replication": "database", "idle_in_transaction_session_timeout": "0", "statement_timeout": "0", "lock_timeout": "0", "synchronous_commit": "on"})
	if err != nil {
		return err
	}
	mine := r.mine
	r.link, r.mine, r.missing = l, l.PID(), false
	r.decoder.relations, r.decoder.txn, r.decoder.settled = map[uint32]*relation{}, nil, false
	r.decoder.out, r.decoder.outBytes = nil, 0
	server, err := pglogrepl.IdentifySystem(ctx, l.PgConn)
	if err != nil {
		return err
	}
	if err := r.same(server); err != nil {
		return err
	}
	r.setup.timeline = strconv.Itoa(int(server.Timeline))
	state, err := r.setup.check(ctx, l, mine)
	r.lag.Store(state.lag)
	if err != nil {
		return err
	}
	if r.server.SystemID != "" && r.server.Timeline != server.Timeline && !state.failover {
		return refused("slot", "%w: a standby has taken over, which does not have the changes that the slot kept", errLostSlot)
	}
	r.server = server
	if !state.there {
		r.missing = true // Read makes it, as that waits for transactions of others
		return nil
	}
	from, _ := r.progress.position()
	if from != 0 && state.confirmed > from {
		r.log.Warn("the slot has gone on while this node was away: another program has read it, or it was moved or made again by hand; the changes between do not come here",
			"slot", r.setup.slot, "from", from, "to", state.confirmed)
	}
	return r.start(ctx, max(from, state.confirmed))
}

// same checks that the server has all that this reader has received: else positions and changes
// are not those that it knows.
func (r *changeReader) same(server pglogrepl.IdentifySystemResult) error {
	_, received := r.progress.position()
	switch {
	case r.server.SystemID == "":
		return nil
	case r.server.SystemID != server.SystemID:
		return refused("source", "%w: this is another server than before, which has other changes", errLostSlot)
	case server.XLogPos < received:
		return refused("source", "the server has lost changes: they were read up to %s, and its WAL ends at %s; restart the program to go on with what it has", received, server.XLogPos)
	}
	return nil
}

// start begins to send changes.
func (r *changeReader) start(ctx context.Context, from pglogrepl.LSN) error {
	if err := r.setup.start(ctx, r.link, from); err != nil {
		return err
	}
	r.waits.Store(0)
	r.quiet.Store(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.stream, r.mu.told = r.link, from
	return nil
}

func (r *changeReader) because(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.problem = err
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

// errMaking is why a node is not ready whose slot is being made.
var errMaking = errors.New("the slot is being made, which waits for the end of all transactions that are open on the server")

// make makes the slot, or begins the snapshot.
func (r *changeReader) make(ctx context.Context) error {
	r.because(errMaking)
	if r.snapshots {
		sn := new(snapshot)
		if err := sn.begin(ctx, r.link, &r.setup); err != nil {
			return err
		}
		r.snapshot, r.missing = sn, false
		r.because(nil)
		return r.decoder.begin(sn.lsn, 0, snapshotTime(r.clock.Now()))
	}
	rows, err := r.link.query(ctx, "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput')", literal(r.setup.slot))
	if err != nil {
		return fmt.Errorf("making the slot %s: %w", r.setup.slot, err)
	}
	if err := r.setup.made(ctx, r.link); err != nil {
		return err
	}
	from, err := pglogrepl.ParseLSN(rows[0][0])
	if err != nil {
		return err
	}
	r.missing = false
	r.because(nil)
	return r.start(ctx, from)
}

// finish ends a snapshot whose rows are settled, and goes on with the changes.
func (r *changeReader) finish(ctx context.Context) error {
	from := r.snapshot.lsn
	if err := r.snapshot.finish(ctx, r.link, &r.setup); err != nil {
		return err
	}
	r.snapshot = nil
	return r.start(ctx, from)
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

// report tells the server how far it may forget, and asks for an answer if the server is to
// show that it is there.
func (r *changeReader) report(answer bool) error {
	r.reporting.Lock() // one after another, so what is confirmed does not go back
	defer r.reporting.Unlock()
	confirmed, received := r.progress.position()
	r.mu.Lock()
	l, told := r.mu.stream, r.mu.told
	r.mu.Unlock()
	if l == nil {
		return nil
	}
	confirmed = max(confirmed, told)
	err := l.Conn().SetWriteDeadline(time.Now().Add(sendTimeout)) // of the system, whatever clock the program has
	if err == nil {
		err = pglogrepl.SendStandbyStatusUpdate(context.Background(), l.PgConn, pglogrepl.StandbyStatusUpdate{
			WALWritePosition: max(received, confirmed), WALFlushPosition: confirmed, WALApplyPosition: confirmed, ReplyRequested: answer,
		})
	}
	if err != nil {
		return lost(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.stream == l {
		r.mu.told = confirmed
	}
	return nil
}

// endWait is how long the changes of a transaction wait for more of it, or for its end.
const endWait = 100 * time.Millisecond

// sendTimeout bounds a report to a server that takes nothing.
const sendTimeout = 10 * time.Second

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

// drop disconnects.
func (r *changeReader) drop() {
	r.mu.Lock()
	r.mu.stream = nil
	r.mu.Unlock()
	r.link.drop()
	r.link, r.snapshot = nil, nil
}
