package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/value"
)

// A relation is a table as the server describes it before its changes.
type relation struct {
	table   string
	left    bool // its changes are left out
	columns []column
}

type column struct {
	name      string
	oid, elem uint32
	key       bool
}

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

// describe notes how a table is now.
func (d *decoder) describe(ctx context.Context, m *pglogrepl.RelationMessage) error {
	t := table{m.Namespace, m.RelationName}
	rel := &relation{table: t.String(), left: len(d.tables) > 0 && !slices.Contains(d.tables, t)}
	d.relations[m.RelationID] = rel
	var unknown []string
	for _, c := range m.Columns {
		elem, known := data.PostgresElem(c.DataType)
		if !known {
			unknown = append(unknown, strconv.FormatUint(uint64(c.DataType), 10))
		}
		rel.columns = append(rel.columns, column{c.Name, c.DataType, elem, c.Flags&1 != 0 && m.ReplicaIdentity != 'f'})
	}
	if rel.left {
		return nil
	}
	if len(unknown) > 0 {
		rows, err := d.side.query(ctx, "SELECT oid, typelem FROM pg_type WHERE typcategory = 'A' AND oid IN (%s)", strings.Join(unknown, ", "))
		if err != nil {
			return lost(err)
		}
		rel.setElems(rows)
	}
	if m.ReplicaIdentity == 'f' {
		rows, err := d.side.query(ctx, keysQuery, strconv.FormatUint(uint64(m.RelationID), 10))
		if err != nil {
			return lost(err)
		}
		rel.setKeys(rows)
	}
	return nil
}

// keysQuery asks for the columns that tell the rows of a table apart.
const keysQuery = `SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
	WHERE c.oid = %s AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END`

func (r *relation) setElems(rows [][]string) {
	for _, row := range rows {
		oid, _ := strconv.ParseUint(row[0], 10, 32) // the server wrote a number
		elem, _ := strconv.ParseUint(row[1], 10, 32)
		for i := range r.columns {
			if r.columns[i].oid == uint32(oid) {
				r.columns[i].elem = uint32(elem)
			}
		}
	}
}

func (r *relation) setKeys(rows [][]string) {
	for i := range r.columns {
		r.columns[i].key = slices.ContainsFunc(rows, func(row []string) bool { return row[0] == r.columns[i].name })
	}
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
		v, missing, k, after, err := rel.tuple(rest[1:], kind == 'K')
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

// tuple decodes a row. keys says that only the columns of the key have values.
func (r *relation) tuple(b []byte, keys bool) (row value.Value, unchanged []string, key string, rest []byte, err error) {
	if len(b) < 2 {
		return row, nil, "", nil, errShort
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; n > len(r.columns) {
		return row, nil, "", nil, fmt.Errorf("the server sent %d columns of %s, which has %d", n, r.table, len(r.columns))
	}
	fields := make([]value.Field, 0, n)
	var ids []value.Value
	for i := range n {
		if len(b) == 0 {
			return row, nil, "", nil, errShort
		}
		c, v := &r.columns[i], value.Null()
		kind := b[0]
		b = b[1:]
		switch kind {
		case pglogrepl.TupleDataTypeNull:
		case pglogrepl.TupleDataTypeToast:
			unchanged = append(unchanged, c.name)
			continue
		default:
			if len(b) < 4 || uint64(len(b)) < 4+uint64(binary.BigEndian.Uint32(b)) {
				return row, nil, "", nil, errShort
			}
			end := 4 + int(binary.BigEndian.Uint32(b))
			v = data.PostgresText(b[4:end], c.oid, c.elem)
			b = b[end:]
		}
		if c.key {
			ids = append(ids, v)
		}
		if !keys || c.key {
			fields = append(fields, value.Field{Name: c.name, Value: v})
		}
	}
	return value.UniqueMap(fields), unchanged, keyOf(ids), b, nil
}

// keyOf is the text of a key: of its only column as it is, of several as a list in JSON.
func keyOf(ids []value.Value) string {
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return ids[0].String()
	}
	text, err := value.List(ids...).AppendJSON(nil)
	if err != nil { // a number that JSON does not have
		return value.List(ids...).String()
	}
	return string(text)
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
// without which its last message is not settled for the server.
func (d *decoder) reads(room stream.Room) bool {
	return !d.full(room) || d.txn != nil && len(d.out) <= room.Messages
}

// take returns the messages that there is room for.
func (d *decoder) take(room stream.Room) []stream.Message {
	n := min(len(d.out), max(room.Messages, 1))
	out := d.out[:n:n]
	d.out = append([]stream.Message(nil), d.out[n:]...)
	d.outBytes = 0
	for _, m := range d.out {
		d.outBytes += int64(m.Body.Size())
	}
	return out
}
