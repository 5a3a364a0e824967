package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"

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
