// Package input is how kinds read records that are in files, or in objects of a store: the fields
// that say so, what an extension means, unpacking, and how records become messages.
//
// An [Input] is what a config says; [Input.Of] completes it for one name. A [Found] decodes one
// record. The package must not know where bytes come from.
package input

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// An Input says how the bytes of a file are read.
type Input struct {
	Options format.Options // without a name if the extension says it
	Packing string         // "", ".gz" or ".zst"
}

// Object is the format of kinds for which what has records can be a message itself. It is not read.
const Object = "object"

// Fields are the fields of kinds that read.
func Fields(auto string, names ...string) []*schema.Field {
	words := names
	doc := ""
	if auto != "" {
		words = append([]string{"auto"}, names...)
		doc = "`auto` goes by the extension: `.ndjson`, `.jsonl`, `.csv`, `.tsv`, `.json`, `.parquet`; anything else is lines. `parquet` is a map for each row. "
	}
	if slices.Contains(words, Object) {
		doc += "`object` is a message for each object, which is not read. "
	}
	return []*schema.Field{
		schema.Enum("format", words...).Default(words[0]).Doc(doc +
			"`lines` are texts. `ndjson` is a JSON value in each line; empty lines are passed over. `csv` is RFC 4180: a map of texts for each row. `json` is one value for all; `raw` is all as binary."),
		schema.String("delimiter").Default(",").Doc("Between the fields of CSV: one ASCII character."),
		schema.Strings("columns").Doc("The names of the columns of CSV. Unset takes them from the first row."),
		schema.Bytes("max_record").Default("8MiB").Range(1, 1<<30).Doc("The longest record. A longer one goes to `error`, with its beginning."),
	}
}

// New reads the fields of Fields.
func New(init *node.Init) (Input, error) {
	c := init.Config
	in := Input{Options: format.Options{Name: c.String("format"), Columns: c.Strings("columns"), MaxRecord: int(c.Int("max_record"))}}
	var err error
	if in.Options.Delimiter, err = DelimiterOf(c); err != nil {
		return in, err
	}
	check := in.Options
	switch in.Options.Name {
	case "auto":
		in.Options.Name, check.Name = "", format.CSV
	case format.Parquet, Object:
		check.Name = format.CSV
	}
	if err := check.Check(); err != nil {
		field := "delimiter"
		if len(check.Columns) > 0 && (format.Options{Name: format.CSV, Columns: check.Columns}).Check() != nil {
			field = "columns"
		}
		return in, c.Errorf(field, diag.CodeBadValue, "%s", err)
	}
	switch check.Name {
	case format.Lines, format.NDJSON, format.JSON, format.Raw:
		WarnCSV(init, "format", c.String("format"))
	}
	return in, nil
}

// Header returns the options of a reader that begins in the middle of CSV: with the names of the
// columns, which are at the beginning of packed.
func (in Input) Header(packed io.Reader) (format.Options, error) {
	o := in.Options
	src, err := in.Unpack(packed, 0)
	if err != nil {
		return o, err
	}
	r := format.NewReader(src, o, 0, 1)
	r.End()
	if _, err := r.Read(nil, 1, 1); err != nil && err != io.EOF {
		return o, err
	}
	o.Columns = r.Columns()
	return o, nil
}

// DelimiterOf reads the field delimiter of kinds that read or write.
func DelimiterOf(c schema.Config) (byte, error) {
	text := c.String("delimiter")
	if len(text) != 1 {
		return 0, c.Errorf("delimiter", diag.CodeBadValue, "must be one ASCII character, got %q", text).WithHint("write one such as \";\", or \"\\t\" for a tab")
	}
	return text[0], nil
}

// WarnCSV warns of fields that only CSV has.
func WarnCSV(init *node.Init, field, format string) {
	for _, name := range []string{"delimiter", "columns"} {
		if c := init.Config; c.Has(name) {
			init.AddWarning(c.Errorf(name, diag.CodeNoEffect, "only CSV has %s: with %s: %s it does nothing", name, field, format).WithHint("write %s: csv, or remove it", field))
		}
	}
}

// Of completes the input for a file, by its extensions.
func (in Input) Of(path string) Input {
	in.Packing = PackingOf(path)
	ext := strings.ToLower(filepath.Ext(path[:len(path)-len(in.Packing)]))
	if in.Options.Name != "" {
		return in
	}
	switch ext {
	case ".ndjson", ".jsonl":
		in.Options.Name = format.NDJSON
	case ".csv":
		in.Options.Name = format.CSV
	case ".tsv":
		in.Options.Name, in.Options.Delimiter = format.CSV, '\t'
	case ".json":
		in.Options.Name = format.JSON
	case ".parquet":
		in.Options.Name = format.Parquet
	default:
		in.Options.Name = format.Lines
	}
	return in
}

// PackingOf returns the extension of a compressed file, in lower case; "" of another.
func PackingOf(path string) string {
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".gz" || ext == ".zst" {
		return ext
	}
	return ""
}

// Packed reports whether the positions in the file are not bytes of it: it is read when
// it is whole, and not followed.
func (in Input) Packed() bool { return in.Packing != "" || in.Table() }

// Table reports whether the file is Parquet: its positions are numbers of rows.
func (in Input) Table() bool { return in.Options.Name == format.Parquet }

// maxWindow is the memory that a zstd stream may ask for: as much as with zstd --long=27.
const maxWindow = 128 << 20

// Unpack returns a reader of what is packed in packed, which begins at its beginning, without the
// first bytes. Without packing, it is packed itself.
func (in Input) Unpack(packed io.Reader, skip int64) (io.Reader, error) {
	var src io.Reader
	var err error
	switch in.Packing {
	case "":
		return packed, nil
	case ".gz":
		src, err = gzip.NewReader(packed)
	default:
		// Without concurrency it starts no goroutine, and need not be closed.
		src, err = zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, src, skip)
	}
	if err != nil && !(err == io.EOF && skip > 0) {
		return nil, unpackError(in.Packing, err)
	}
	return unpacker{src, in.Packing}, nil
}

// An unpacker says what is wrong with a compressed file.
type unpacker struct {
	src     io.Reader
	packing string
}

func (u unpacker) Read(b []byte) (int, error) {
	n, err := u.src.Read(b)
	if err != nil && err != io.EOF {
		err = unpackError(u.packing, err)
	}
	return n, err
}

func unpackError(packing string, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the file is not complete, or not packed as its extension %s says", packing)
	}
	return fmt.Errorf("the file is not packed as its extension %s says: %w", packing, err)
}
