package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pglogrepl"

	"github.com/uniflow-labs/uniflow/node/stream"
)

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

// drop disconnects.
func (r *changeReader) drop() {
	r.mu.Lock()
	r.mu.stream = nil
	r.mu.Unlock()
	r.link.drop()
	r.link, r.snapshot = nil, nil
}
