package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/uniflow-labs/uniflow/node"
)

// feedbackEvery is how often the server hears how far the reader is, and shows that it is there.
// It closes a connection that it has not heard of for wal_sender_timeout, 60 s by default.
const feedbackEvery = 10 * time.Second

// silence is after what time without an answer the connection is given up.
const silence = 25 * time.Second

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

// sendTimeout bounds a report to a server that takes nothing.
const sendTimeout = 10 * time.Second

func (r *changeReader) beginFeedback() {
	r.feedback.Lock()
	begun := r.feedback.begun
	r.feedback.begun = true
	r.feedback.Unlock()
	if !begun {
		r.schedule()
	}
}

// schedule makes tick run.
func (r *changeReader) schedule() {
	r.feedback.Lock()
	defer r.feedback.Unlock()
	if r.feedback.closed {
		return
	}
	r.feedback.running.Add(1)
	r.feedback.stop = r.clock.AfterFunc(feedbackEvery, func(ctx context.Context) {
		defer r.feedback.running.Done()
		r.tick(ctx)
		r.schedule()
	})
}

func (r *changeReader) endFeedback() {
	r.feedback.Lock()
	r.feedback.closed = true
	stop := r.feedback.stop
	r.feedback.Unlock()
	if stop != nil && stop() {
		r.feedback.running.Done()
	}
	r.feedback.running.Wait()
}

// tick reports how far the reader is, whatever Read does, and asks for the lag.
func (r *changeReader) tick(ctx context.Context) {
	if err := r.report(true); err != nil {
		r.log.Debug("the server was not told how far the reader is", "error", err) // Read sees the loss
	}
	if since := r.waits.Load(); since != 0 && r.clock.Now().Sub(time.Unix(0, since)) > silence {
		r.quiet.Store(true)
		r.mu.Lock()
		if r.mu.stream != nil {
			_ = r.mu.stream.Conn().SetReadDeadline(past) // of a closed connection: Read sees it
		}
		r.mu.Unlock()
	}
	rows, err := r.side.query(ctx, "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, confirmed_flush_lsn) FROM pg_replication_slots WHERE slot_name = %s", literal(r.setup.slot))
	if err != nil {
		r.log.Debug("the lag of the slot is not known", "error", err)
		return
	}
	if len(rows) > 0 {
		lag, _ := strconv.ParseInt(rows[0][0], 10, 64) // empty for a slot that is being made
		r.lag.Store(lag)
	}
}

// Ready implements [node.Readier].
func (r *changeReader) Ready() error {
	r.mu.Lock()
	problem := r.mu.problem
	r.mu.Unlock()
	if problem != nil {
		return problem
	}
	if lag := r.lag.Load(); r.maxLag > 0 && lag > r.maxLag {
		return fmt.Errorf("the slot %s keeps %d bytes of WAL on the disk of the server, more than max_lag (%d): its messages are settled more slowly than changes come", r.setup.slot, lag, r.maxLag)
	}
	return nil
}

// Counts implements [stream.Counter].
func (r *changeReader) Counts(report func(node.Metric)) {
	report(node.Metric{Name: "source_lag_bytes", Help: "WAL that the slot keeps on the disk of the server.", Type: node.MetricGauge, Value: float64(r.lag.Load())})
}
