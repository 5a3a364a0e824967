package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// An origin is the token of a message: where it comes from.
type origin struct {
	lsn     pglogrepl.LSN // of the commit, or of the snapshot
	index   int           // of its first change
	xid     uint32        // 0 for a snapshot
	table   string        // empty for a transaction
	part    int           // of a transaction, from 1
	partial bool          // more parts follow
}

// A decoder makes messages of changes. The goroutine that reads owns it.
type decoder struct {
	side      *side
	progress  *progress
	tables    []table
	whole     bool // a message for each transaction
	most      int  // changes of a part
	bytes     int  // of a part
	relations map[uint32]*relation

	txn     *txn // nil outside of one, and in one whose messages are settled
	settled bool // all messages of the transaction
	begun   origin
	time    time.Time
	changes []value.Value // of the part
	first   int           // index of the first of them
	size    int

	out      []stream.Message
	outBytes int64
}

// begin begins a transaction, or a snapshot.
func (d *decoder) begin(lsn pglogrepl.LSN, xid uint32, at time.Time) (err error) {
	d.txn, err = d.progress.begin(lsn, xid)
	d.settled, d.begun, d.time = d.txn == nil, origin{lsn: lsn, xid: xid}, at
	d.changes, d.first, d.size = nil, 0, 0
	return err
}

// commit ends it.
func (d *decoder) commit(end pglogrepl.LSN) error {
	if d.settled {
		return nil
	}
	if len(d.changes) > 0 {
		if err := d.flush(false); err != nil {
			return err
		}
	}
	d.progress.commit(d.txn, end)
	d.txn = nil
	return nil
}

// receive decodes one message of the server.
func (d *decoder) receive(ctx context.Context, msg []byte) error {
	if len(msg) == 0 {
		return errors.New("the server sent an empty message")
	}
	switch pglogrepl.MessageType(msg[0]) {
	case pglogrepl.MessageTypeInsert, pglogrepl.MessageTypeUpdate, pglogrepl.MessageTypeDelete:
		return d.change(msg)
	case pglogrepl.MessageTypeOrigin, pglogrepl.MessageTypeType, pglogrepl.MessageTypeMessage:
		return nil
	}
	m, err := pglogrepl.Parse(msg)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		return d.begin(m.FinalLSN, m.Xid, m.CommitTime)
	case *pglogrepl.CommitMessage:
		return d.commit(m.TransactionEndLSN)
	case *pglogrepl.RelationMessage:
		return d.describe(ctx, m)
	case *pglogrepl.TruncateMessage:
		for _, id := range m.RelationIDs {
			if rel := d.relations[id]; rel != nil && !rel.left && !d.settled {
				if err := d.emit(rel, "truncate", value.Null(), value.Null(), nil, ""); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

var errShort = errors.New("the server sent a change that ends too early")

// change decodes a change of a row.
func (d *decoder) change(msg []byte) error {
	if len(msg) < 6 {
		return errShort
	}
	rel := d.relations[binary.BigEndian.Uint32(msg[1:])]
	if rel == nil || d.txn == nil && !d.settled {
		return errors.New("the server sent a change of a table that it has not described")
	}
	if rel.left || d.settled {
		return nil
	}
	op := map[byte]string{'I': "insert", 'U': "update", 'D': "delete"}[msg[0]]
	var row, old value.Value
	var unchanged []string
	var key string
	for rest := msg[5:]; len(rest) > 0; {
		kind := rest[0]
		v, missing, k, after, err := rel.tuple(rest[1:], kind == 'K', old)
		if err != nil {
			return err
		}
		if rest = after; kind == 'N' {
			row, unchanged, key = v, missing, k
		} else if old = v; key == "" {
			key = k
		}
	}
	return d.emit(rel, op, row, old, unchanged, key)
}

// emit makes a message of a change, or adds it to the part of its transaction.
func (d *decoder) emit(rel *relation, op string, row, old value.Value, unchanged []string, key string) error {
	fields := make([]value.Field, 0, 6)
	fields = append(fields, value.Field{Name: "op", Value: value.String(op)}, value.Field{Name: "table", Value: value.String(rel.table)},
		value.Field{Name: "row", Value: row}, value.Field{Name: "old", Value: old})
	if len(unchanged) > 0 {
		names := make([]value.Value, len(unchanged))
		for i, name := range unchanged {
			names[i] = value.String(name)
		}
		fields = append(fields, value.Field{Name: "unchanged", Value: value.List(names...)})
	}
	if !d.whole {
		d.begun.index++
		from := d.begun
		from.table = rel.table
		return d.send(value.UniqueMap(fields), key, &from)
	}
	if key != "" {
		fields = append(fields, value.Field{Name: "key", Value: value.String(key)})
	}
	body := value.UniqueMap(fields)
	if len(d.changes) > 0 && (len(d.changes) >= d.most || d.size+body.Size() > d.bytes) {
		if err := d.flush(true); err != nil {
			return err
		}
	}
	if d.begun.index++; len(d.changes) == 0 {
		d.first = d.begun.index
	}
	d.changes, d.size = append(d.changes, body), d.size+body.Size()
	return nil
}

// flush makes a message of the changes of a transaction that have come.
func (d *decoder) flush(partial bool) error {
	d.begun.part++
	from := d.begun
	from.index, from.partial = d.first, partial
	body := value.List(d.changes...)
	d.changes, d.size = nil, 0
	return d.send(body, "", &from)
}

func (d *decoder) send(body value.Value, key string, from *origin) error {
	offset, err := d.progress.offset(d.txn)
	if err != nil {
		return err
	}
	d.out = append(d.out, stream.Message{Body: body, Key: key, Time: d.time, Offset: offset, Token: from})
	d.outBytes += int64(body.Size())
	return nil
}

// full reports whether there is no room for more messages.
func (d *decoder) full(room stream.Room) bool {
	return len(d.out) >= max(room.Messages, 1) || len(d.out) > 0 && d.outBytes >= room.Bytes
}

// reads reports whether to read on: there is room, or the end of the transaction may be next,
// without which its last message is not settled for the server. If a message is next instead, it
// waits for the next call.
func (d *decoder) reads(room stream.Room) bool {
	return !d.full(room) || d.txn != nil && d.fitting(room) == len(d.out)
}

// fitting returns how many of the messages there is room for. At most the last one is larger.
func (d *decoder) fitting(room stream.Room) int {
	before := d.outBytes
	for n := len(d.out); n > 1; n-- {
		if before -= int64(d.out[n-1].Body.Size()); n <= room.Messages && before < room.Bytes {
			return n
		}
	}
	return min(len(d.out), 1)
}

// take returns the messages that there is room for.
func (d *decoder) take(room stream.Room) []stream.Message {
	n := d.fitting(room)
	out := d.out[:n:n]
	d.out = append([]stream.Message(nil), d.out[n:]...)
	d.outBytes = 0
	for _, m := range d.out {
		d.outBytes += int64(m.Body.Size())
	}
	return out
}
