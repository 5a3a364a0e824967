package s3

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// An encoding is how records become objects. It is immutable.
type encoding struct {
	name     string // of the field encode
	rows     bool   // a body is a list of rows
	compress string
	options  format.Options // except for parquet
	columns  []format.ParquetColumn
}

func newEncoding(init *node.Init, part bool) (encoding, error) {
	c := init.Config
	e := encoding{name: c.String("encode"), rows: c.Bool("rows"), compress: c.String("compress")}
	for _, column := range c.List("schema") {
		e.columns = append(e.columns, format.ParquetColumn{Name: column.String("name"), Type: column.String("type")})
	}
	if e.name == "parquet" {
		if err := format.CheckParquetColumns(e.columns); err != nil {
			at := "schema"
			if len(e.columns) == 0 {
				at = "encode"
			}
			return e, c.Errorf(at, diag.CodeBadValue, "%s", err).WithHint("write them as schema: [{name: id, type: int}]")
		}
	} else if c.Has("schema") {
		return e, c.Errorf("schema", diag.CodeBadValue, "only Parquet has a schema").WithHint("write encode: parquet, or remove it")
	}
	if e.rows && (e.name == "raw" || e.name == "json") {
		return e, c.Errorf("rows", diag.CodeBadValue, "%s has no rows", e.name).WithHint("write encode: ndjson, or remove rows")
	}
	names := map[string]string{"ndjson": format.NDJSON, "csv": format.CSV, "raw": format.Raw, "json": format.JSON}
	var err error
	e.options = format.Options{Name: names[e.name], Columns: c.Strings("columns")}
	if e.options.Delimiter, err = input.DelimiterOf(c); err != nil {
		return e, err
	}
	if e.name == "csv" {
		if err := (format.Options{Name: format.Lines, Columns: e.options.Columns}).Check(); err != nil {
			return e, c.Errorf("columns", diag.CodeBadValue, "%s", err)
		}
		if err := e.options.Check(); err != nil {
			return e, c.Errorf("delimiter", diag.CodeBadValue, "%s", err)
		}
	} else {
		input.WarnCSV(init, "encode", e.name)
	}
	return e, nil
}

// contentType returns the type of objects, unless one is given.
func (e *encoding) contentType(given string) string {
	switch {
	case given != "":
		return given
	case e.name == "parquet":
		return "application/vnd.apache.parquet"
	case e.compress == "gzip":
		return "application/gzip"
	case e.compress == "zstd":
		return "application/zstd"
	}
	return map[string]string{"ndjson": "application/x-ndjson", "json": "application/json", "csv": "text/csv; charset=utf-8"}[e.name]
}

// An output is an object to write.
type output struct {
	key     string
	records []int // that are in it
	ids     []string
	data    bytes.Buffer

	packer  io.WriteCloser // nil without compression
	encoder *format.Encoder
	table   *format.ParquetWriter
	text    []byte // to be used again
	headed  bool   // the names of the columns of CSV are in it
	fault   error  // it cannot be written
}

// encode makes objects of records. Those of a chain are to be written in order: they have the same
// key. failed gets the records that cannot be encoded.
func (e *encoding) encode(records []stream.Record, part bool, failed func(i int, err error)) (chains [][]*output) {
	byKey := make(map[string]int) // of chains
	for i := range records {
		r := &records[i]
		key := r.Texts[0]
		if err := checkKey(key); err != nil {
			failed(i, node.Unusable("key", err))
			continue
		}
		at, there := byKey[key]
		var o *output
		if there && part {
			o = chains[at][0]
		} else {
			o = e.begin(key)
		}
		if err := e.add(o, r.Body, part); err != nil {
			failed(i, node.Unusable("encode", err))
			continue
		}
		o.records, o.ids = append(o.records, i), append(o.ids, r.ID)
		switch {
		case !there:
			byKey[key] = len(chains)
			chains = append(chains, []*output{o})
		case !part:
			chains[at] = append(chains[at], o)
		}
	}
	for _, chain := range chains {
		for _, o := range chain {
			e.end(o, part)
		}
	}
	return chains
}

// checkKey returns why a service would not take a key.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > 1024:
		return fmt.Errorf("the key has %d bytes, more than 1024", len(key))
	case !utf8.ValidString(key):
		return errors.New("the key is not UTF-8")
	}
	return nil
}

// begin begins an object.
func (e *encoding) begin(key string) *output {
	o := &output{key: key}
	if e.name == "parquet" {
		o.table = format.NewParquetWriter(&o.data, e.columns, e.compress == "gzip")
		return o
	}
	o.encoder = format.NewEncoder(e.options)
	switch e.compress {
	case "gzip":
		o.packer = gzip.NewWriter(&o.data)
	case "zstd":
		// Without concurrency it starts no goroutine.
		o.packer, _ = zstd.NewWriter(&o.data, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true)) // these options have no error
	}
	return o
}

// rowsHint says how a body becomes a list of rows: one of its fields may be that list.
func rowsHint(body value.Value) string {
	if body.Kind() != value.KindMap {
		return ""
	}
	for name, field := range body.Fields() {
		if field.Kind() == value.KindList {
			return fmt.Sprintf(`: if its field %[1]q has the rows, make that the body, with a snippet of CEL before this node such as {"id": self.id, "body": self.body[%[1]q]}`, name)
		}
	}
	return ": if it is one row, leave out rows"
}

// add adds the rows of a body, all or none.
func (e *encoding) add(o *output, body value.Value, part bool) error {
	rows := []value.Value{body}
	if e.rows {
		if body.Kind() != value.KindList {
			return fmt.Errorf("want a list of rows, got %s%s", body.Kind(), rowsHint(body))
		}
		rows = make([]value.Value, 0, body.Len())
		for _, row := range body.Elems() {
			rows = append(rows, row)
		}
	}
	if o.table != nil {
		if body.Kind() == value.KindList && !e.rows {
			return errors.New("want a map with a field for each column, got list: if each element is a row, write rows: true")
		}
		return o.table.Add(rows...)
	}
	o.text = o.text[:0]
	header := e.name == "csv" && !o.headed
	var err error
	for _, row := range rows {
		switch {
		case e.name == "json" && part && len(o.records) > 0:
			o.text = append(o.text, ',')
		case e.name == "json" && part:
			o.text = append(o.text, '[')
		}
		if header && o.encoder.Columns() != nil {
			o.text, header = o.encoder.AppendHeader(o.text), false
		}
		before := len(o.text)
		if o.text, err = o.encoder.Append(o.text, row); err != nil {
			return err
		}
		if header { // the first row has given the columns
			text := o.encoder.AppendHeader(nil)
			o.text, header = append(text, o.text[before:]...), false
		}
	}
	if e.name == "json" {
		o.text = bytes.TrimSuffix(o.text, []byte{'\n'})
	}
	if _, err = o.out().Write(o.text); err == nil {
		o.headed = e.name == "csv" && !header
	}
	return err
}

func (o *output) out() io.Writer {
	if o.packer != nil {
		return o.packer
	}
	return &o.data
}

// end completes an object, and its key.
func (e *encoding) end(o *output, part bool) {
	var err error
	if e.name == "json" && part {
		_, err = o.out().Write([]byte{']'})
	}
	if o.packer != nil {
		err = errors.Join(err, o.packer.Close())
	}
	if o.table != nil {
		err = errors.Join(err, o.table.Close())
	}
	o.fault = err
	if part {
		o.key = strings.ReplaceAll(o.key, partMark, partOf(o.ids))
	}
}

// partOf returns what distinguishes an object: the same for the same ids, so that a batch that is
// written again replaces what it was. Without all ids it is random.
func partOf(ids []string) string {
	h := sha256.New()
	for _, id := range ids {
		if id == "" {
			return strings.ToLower(rand.Text())
		}
		fmt.Fprintf(h, "%d %s\n", len(id), id)
	}
	return hex.EncodeToString(h.Sum(nil)[:13])
}

// textsOf reads a map of texts.
func textsOf(v value.Value) (map[string]string, error) {
	texts := make(map[string]string, v.Len())
	if v.Kind() != value.KindMap && !v.IsNull() {
		return nil, fmt.Errorf("want a map of texts, got %s", v.Kind())
	}
	for name, field := range v.Fields() {
		text, ok := field.AsString()
		if !ok {
			return nil, fmt.Errorf("%q: want text, got %s", name, field.Kind())
		}
		texts[name] = text
	}
	return texts, nil
}
