package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
)

// A dueEntry is pending for this consumer, and comes again.
type dueEntry struct {
	id      string
	at      time.Time
	attempt int // what the group has to count if no process has begun with it; else -1
}

// claimMost is how many entries a command names at most.
const claimMost = 500

// add makes entries due now that the reader does not have.
func (r *streamReader) add(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := make(map[string]bool, len(r.mu.due)+len(r.waiting))
	for _, d := range r.mu.due {
		have[d.id] = true
	}
	for _, e := range r.waiting {
		have[e.id] = true
	}
	for _, id := range ids {
		if r.mu.held[id] == nil && !have[id] {
			r.mu.due = append(r.mu.due, &dueEntry{id: id, attempt: -1})
		}
	}
}

// pending calls f with the ids that are pending for the consumer, many at a time.
func (r *streamReader) pending(ctx context.Context, conn *client.Conn, f func(ids []string) error) error {
	for from := "-"; ; {
		m, err := conn.Do(ctx, "XPENDING", r.stream, r.group, from, "+", strconv.Itoa(claimMost), r.consumer)
		if err != nil {
			return err
		}
		list, err := parsePending(m)
		if err != nil || len(list) == 0 {
			return err
		}
		ids := make([]string, len(list))
		for i, p := range list {
			ids[i] = p.id
		}
		if err := f(ids); err != nil || len(ids) < claimMost {
			return err
		}
		from = "(" + ids[len(ids)-1]
	}
}

// A pendingEntry is what a group knows of an entry.
type pendingEntry struct {
	id, consumer string
	deliveries   int
}

func parsePending(m rueidis.RedisMessage) ([]pendingEntry, error) {
	list, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	all := make([]pendingEntry, len(list))
	for i := range list {
		row, err := list[i].ToArray()
		if err != nil || len(row) != 4 {
			return nil, unexpected("XPENDING", err)
		}
		if all[i].id, err = row[0].ToString(); err != nil {
			return nil, err
		}
		if all[i].consumer, err = row[1].ToString(); err != nil {
			return nil, err
		}
		n, err := row[3].AsInt64()
		if err != nil {
			return nil, err
		}
		all[i].deliveries = int(n)
	}
	return all, nil
}

// findPending makes due what the group has given to the consumer and the reader does not have:
// what an earlier program of that name has left, and what was lost with a connection.
func (r *streamReader) findPending(ctx context.Context, conn *client.Conn) error {
	if r.conn == nil && !r.named {
		return nil
	}
	return r.pending(ctx, conn, func(ids []string) error {
		r.add(ids)
		return nil
	})
}

// findLeft makes due what others have left, and looks through a part of what is pending.
func (r *streamReader) findLeft(ctx context.Context) error {
	if r.scan == "" {
		if now := r.clock.Now(); now.Sub(r.scanned) >= min(r.claim/2, longestScan) {
			r.scan, r.scanned = "0-0", now
		} else {
			return nil
		}
	}
	m, err := r.conn.Do(ctx, "XAUTOCLAIM", r.stream, r.group, r.consumer, strconv.FormatInt(r.claim.Milliseconds(), 10), r.scan, "COUNT", "100", "JUSTID")
	if err != nil {
		return err
	}
	answer, err := m.ToArray()
	if err != nil || len(answer) < 2 {
		return unexpected("XAUTOCLAIM", err)
	}
	if r.scan, err = answer[0].ToString(); err != nil {
		return err
	}
	if r.scan == "0-0" {
		r.scan = ""
	}
	ids, err := answer[1].AsStrSlice()
	if len(ids) > 0 {
		r.add(ids)
		signal(r.wake)
	}
	return err
}

// longestScan is how often to look for what others have left, at least.
const longestScan = 5 * time.Second

// claimDue reads the entries that are due.
func (r *streamReader) claimDue(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	most := min(r.pace.count(room.Messages, room.Bytes), claimMost)
	now := r.clock.Now()
	var ids []string
	r.mu.Lock()
	later := r.mu.due[:0]
	for _, d := range r.mu.due {
		switch {
		case len(ids) == most || now.Before(d.at):
			later = append(later, d)
		case r.mu.held[d.id] == nil: // else a group that was made again has given it out
			ids = append(ids, d.id)
		}
	}
	clear(r.mu.due[len(later):])
	r.mu.due = later
	r.mu.Unlock()
	if len(ids) == 0 {
		return nil, nil
	}
	commands := make([][]string, 0, len(ids)+1)
	for _, id := range ids {
		commands = append(commands, []string{"XPENDING", r.stream, r.group, id, id, "1"})
	}
	commands = append(commands, append([]string{"XCLAIM", r.stream, r.group, r.consumer, "0"}, ids...))
	read, err := r.claimed(ids, r.conn.DoMulti(ctx, commands...))
	if err != nil {
		r.add(ids) // those that were read are held
	}
	return read, err
}

// claimed makes messages of what a claim has answered: what is pending of each id, and the
// entries of those that are still there.
func (r *streamReader) claimed(ids []string, answers []client.Answer) (read []stream.Message, err error) {
	deliveries := make(map[string]int, len(ids))
	for _, a := range answers[:len(ids)] {
		if a.Err != nil {
			return nil, a.Err
		}
		list, err := parsePending(a.Message)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			deliveries[p.id] = p.deliveries
		}
	}
	if err := answers[len(ids)].Err; err != nil {
		return nil, err
	}
	entries, err := parseEntries(answers[len(ids)].Message)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		r.mu.last = maxID(r.mu.last, e.at)
		read = append(read, r.messageLocked(e, deliveries[e.id]))
	}
	return read, nil
}

// showLife tells the group that what this reader has is in progress.
func (r *streamReader) showLife() {
	r.mu.Lock()
	ids := make([]string, 0, len(r.mu.held)+len(r.mu.due))
	for id := range r.mu.held {
		ids = append(ids, id)
	}
	for _, d := range r.mu.due {
		ids = append(ids, d.id)
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.ctx, answerTimeout)
	defer cancel()
	for len(ids) > 0 {
		n := min(len(ids), claimMost)
		if err := r.own(ctx, ids[:n], 0, -1); err != nil {
			if r.ctx.Err() == nil {
				r.log.Warn("the group does not know that messages are in progress", "error", err)
			}
			return
		}
		ids = ids[n:]
	}
}

// own sets since when entries are idle, and how often they were delivered unless that is -1.
func (r *streamReader) own(ctx context.Context, ids []string, idle time.Duration, deliveries int) error {
	command := append([]string{"XCLAIM", r.stream, r.group, r.consumer, "0"}, ids...)
	command = append(command, "IDLE", strconv.FormatInt(idle.Milliseconds(), 10))
	if deliveries >= 0 {
		command = append(command, "RETRYCOUNT", strconv.Itoa(deliveries))
	}
	_, err := r.conn.Do(ctx, append(command, "JUSTID")...)
	return err
}

// abandoned is how long entries are idle that are given back: longer than any claim.
const abandoned = 365 * 24 * time.Hour

// Close gives back what is not settled, so that others claim it now.
func (r *streamReader) Close(ctx context.Context) error {
	r.progress.end()
	r.stop()
	r.drainFetch()
	r.work.Wait()
	unbegun := make(map[string]int)
	for _, e := range r.waiting {
		unbegun[e.id] = 0
	}
	for _, d := range r.mu.due { // nothing else runs any more
		if d.attempt >= 0 {
			unbegun[d.id] = d.attempt
		}
	}
	err := r.pending(ctx, r.conn, func(ids []string) error {
		if err := r.own(ctx, ids, abandoned, -1); err != nil {
			return err
		}
		for _, id := range ids {
			if n, ok := unbegun[id]; ok {
				if err := r.own(ctx, []string{id}, abandoned, n); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil && !r.named {
		err = r.removeConsumer(ctx, r.consumer)
	}
	if closed := r.conn.Close(); err == nil {
		err = closed
	}
	return err
}
