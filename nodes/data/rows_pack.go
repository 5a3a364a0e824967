package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/value"
)

// A layout is what lists of rows are packed for: columns, and the statement that has reported
// their types on the connection of a sink. It is immutable.
type layout struct {
	columns   []string
	names     string
	named     bool // the columns are those of the config: other fields are left out
	statement *postgresStatement
}

// A pack is a list of rows in the binary form of COPY, without its header and its end.
type pack struct {
	layout *layout
	data   []byte
}

// packs are used again.
var packs = sync.Pool{New: func() any { return new(pack) }}

// remember notes for which columns and types a COPY has worked.
func (w *sinkWriter) remember(c *postgresConn, columns []string) {
	last := w.layout.Load()
	if last != nil && slices.Equal(last.columns, columns) {
		if p, _ := c.statements.Get(copyTypes(w.table.table, last.names)); p == last.statement {
			return
		}
	}
	names := w.table.names(columns)
	if p, ok := c.statements.Get(copyTypes(w.table.table, names)); ok {
		w.layout.Store(&layout{columns: columns, names: names, named: len(w.columns) > 0, statement: p})
	}
}

// Pack implements [stream.Packer] for COPY, if all bodies fit the columns and types of the last
// one.
func (w *sinkWriter) Pack(bodies value.Value) any {
	l := w.layout.Load()
	if l == nil {
		return nil
	}
	p := packs.Get().(*pack)
	p.layout, p.data = l, p.data[:0]
	for _, body := range bodies.Elems() {
		var ok bool
		if p.data, ok = l.append(p.data, body); !ok {
			p.free()
			return nil
		}
	}
	return p
}

// free lets the pack be used again.
func (p *pack) free() {
	if p.layout = nil; cap(p.data) <= mostBuffer {
		packs.Put(p)
	}
}

// append adds a row, as appendBinaryRows does.
func (l *layout) append(data []byte, body value.Value) (_ []byte, ok bool) {
	data = binary.BigEndian.AppendUint16(data, uint16(len(l.columns)))
	if l.named {
		for i, column := range l.columns {
			v, _ := body.Get(column)
			if data, ok = l.statement.appendBinaryField(data, i, v); !ok {
				return data, false
			}
		}
		return data, body.Kind() == value.KindMap
	}
	if body.Len() != len(l.columns) {
		return data, false
	}
	i := 0
	for name, v := range body.Fields() {
		if name != l.columns[i] {
			return data, false
		}
		if data, ok = l.statement.appendBinaryField(data, i, v); !ok {
			return data, false
		}
		i++
	}
	return data, i > 0
}

// WritePacked implements [stream.Packer]: one COPY of the packs, if they are for the types
// that the connection knows. If a row may be why it fails, Write finds out which.
func (w *sinkWriter) WritePacked(ctx context.Context, written []any) (ok bool, err error) {
	first := written[0].(*pack).layout
	parts := []io.Reader{strings.NewReader(binaryHeader)}
	for _, p := range written {
		p := p.(*pack)
		defer p.free()
		if p.layout != first {
			return false, nil
		}
		parts = append(parts, bytes.NewReader(p.data))
	}
	parts = append(parts, strings.NewReader(binaryEnd))
	fits := true
	rows, err := w.attempt(ctx, func(c conn) error {
		pg := c.(*postgresConn)
		if p, _ := pg.statements.Get(copyTypes(w.table.table, first.names)); p != first.statement {
			fits = false
			return nil
		}
		_, err := pg.conn.CopyFrom(ctx, io.MultiReader(parts...), first.statement.copyBinary(w.table.table, first.names))
		if stale(err) && pg.state() != stateLost {
			fits = false
			return nil
		}
		return err
	})
	if rows || !fits {
		return false, nil
	}
	return true, err
}
