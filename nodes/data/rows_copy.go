package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"

	"github.com/uniflow-labs/uniflow/value"
)

// copyRows sends rows by COPY, all or none. The types of the columns are asked once for a
// connection. If appendBinary can encode all of them, and the values, the rows go
// in the binary form, which both sides make and read for less. Otherwise they go as texts,
// which the server reads as it reads arguments.
func (c *postgresConn) copyRows(ctx context.Context, table, names string, rows [][]value.Value) error {
	text := copyTypes(table, names)
	p, err := c.prepared(ctx, text)
	if err != nil {
		return err
	}
	buf, ok := p.appendBinaryRows(c.buf[:0], rows)
	if ok {
		err = c.copyFrom(ctx, buf, p.copyBinary(table, names))
		if !stale(err) || c.state() == stateLost {
			return err
		}
		c.statements.Remove(text)
		if p, err = c.prepared(ctx, text); err != nil {
			return err
		}
	}
	if buf, err = p.appendTextRows(buf[:0], rows); err != nil {
		return err
	}
	if err = c.copyFrom(ctx, buf, copyText(table, names)); stale(err) {
		c.statements.Remove(text)
	}
	return err
}

// copyTypes is the statement that reports the types of columns.
func copyTypes(table, names string) string { return "SELECT " + names + " FROM " + table + " LIMIT 0" }

func copyText(table, names string) string { return "COPY " + table + " (" + names + ") FROM STDIN" }

// copyBinary is COPY in the binary form, in which the server would take eight bytes of one
// type for another, were the table changed meanwhile. So it runs the statement that reports
// the types, which then fails, in the transaction of the COPY.
func (p *postgresStatement) copyBinary(table, names string) string {
	return "EXECUTE " + p.Name + "; " + copyText(table, names) + " WITH (FORMAT binary)"
}

// copyFrom runs COPY with the data of a buffer, which is kept for the next call.
func (c *postgresConn) copyFrom(ctx context.Context, buf []byte, text string) error {
	if c.buf = buf[:0]; cap(buf) > mostBuffer {
		c.buf = nil
	}
	_, err := c.conn.CopyFrom(ctx, bytes.NewReader(buf), text)
	return err
}

// appendTextRows writes rows in the form of text of COPY.
func (p *postgresStatement) appendTextRows(buf []byte, rows [][]value.Value) (_ []byte, err error) {
	var scratch []byte
	for _, row := range rows {
		for i, v := range row {
			if i > 0 {
				buf = append(buf, '\t')
			}
			if v.IsNull() {
				buf = append(buf, `\N`...)
				continue
			}
			if scratch, err = appendArgument(scratch[:0], v, p.Fields[i].DataTypeOID); err != nil {
				return nil, badQuery("column %s: %w", p.columns[i], err)
			}
			buf = appendCopied(buf, scratch)
		}
		buf = append(buf, '\n')
	}
	return buf, nil
}

// appendCopied writes a text with what COPY would take as the end of a column escaped.
func appendCopied(dst, text []byte) []byte {
	from := 0
	for i, b := range text {
		var escape byte
		switch b {
		case '\\':
			escape = '\\'
		case '\n':
			escape = 'n'
		case '\r':
			escape = 'r'
		case '\t':
			escape = 't'
		default:
			continue
		}
		dst = append(append(dst, text[from:i]...), '\\', escape)
		from = i + 1
	}
	return append(dst, text[from:]...)
}

// binaryHeader begins the binary form of COPY: a signature, no flags, no extension.
const binaryHeader = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// appendBinaryRows writes rows in the binary form of COPY. It is not ok if a value does not
// surely mean what its text means.
func (p *postgresStatement) appendBinaryRows(buf []byte, rows [][]value.Value) (_ []byte, ok bool) {
	buf = append(buf, binaryHeader...)
	for _, row := range rows {
		buf = binary.BigEndian.AppendUint16(buf, uint16(len(row)))
		for i, v := range row {
			if buf, ok = p.appendBinaryField(buf, i, v); !ok {
				return buf, false
			}
		}
	}
	return append(buf, binaryEnd...), true
}

// binaryEnd ends the binary form of COPY.
const binaryEnd = "\xff\xff"

// appendBinaryField writes the value of a column, behind its size.
func (p *postgresStatement) appendBinaryField(buf []byte, column int, v value.Value) (_ []byte, ok bool) {
	if v.IsNull() {
		return append(buf, 0xff, 0xff, 0xff, 0xff), true
	}
	at := len(buf)
	if buf, ok = appendBinary(append(buf, 0, 0, 0, 0), v, p.Fields[column].DataTypeOID); ok {
		binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-4))
	}
	return buf, ok
}

// appendBinary writes a value as the type is sent in binary.
func appendBinary(dst []byte, v value.Value, oid uint32) (_ []byte, ok bool) {
	switch oid {
	case typeInt2, typeInt4, typeInt8:
		i, ok := v.AsInt()
		switch {
		case !ok || oid == typeInt2 && i != int64(int16(i)) || oid == typeInt4 && i != int64(int32(i)):
			return dst, false
		case oid == typeInt2:
			return binary.BigEndian.AppendUint16(dst, uint16(i)), true
		case oid == typeInt4:
			return binary.BigEndian.AppendUint32(dst, uint32(i)), true
		}
		return binary.BigEndian.AppendUint64(dst, uint64(i)), true
	case typeFloat8:
		f, ok := v.AsFloat()
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(f)), ok
	case typeBool:
		b, ok := v.AsBool()
		if b {
			return append(dst, 1), ok
		}
		return append(dst, 0), ok
	case typeText, typeVarchar:
		s, ok := v.AsString()
		return append(dst, s...), ok
	case typeBytea:
		b, ok := v.AsBinary()
		return append(dst, b...), ok
	}
	return dst, false
}
