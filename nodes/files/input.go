package files

import (
	"fmt"
	"github.com/uniflow-labs/uniflow/node"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/schema"
)

// An input says how the bytes of a file are read.
type input struct {
	options format.Options // without a name if the extension says it
	packing string         // "", ".gz" or ".zst"
}

// inputFields are the fields of kinds that read.
func inputFields(auto string, names ...string) []*schema.Field {
	words := names
	doc := ""
	if auto != "" {
		words = append([]string{"auto"}, names...)
		doc = "`auto` goes by the extension: `.ndjson`, `.jsonl`, `.csv`, `.tsv`, `.json`, `.parquet`; anything else is lines. `parquet` is a map for each row. "
	}
	return []*schema.Field{
		schema.Enum("format", words...).Default(words[0]).Doc(doc +
			"`lines` are texts. `ndjson` is a JSON value in each line; empty lines are passed over. `csv` is RFC 4180: a map of texts for each row. `json` is one value for all; `raw` is all as binary."),
		schema.String("delimiter").Default(",").Doc("Between the fields of CSV: one ASCII character."),
		schema.Strings("columns").Doc("The names of the columns of CSV. Unset takes them from the first row."),
		schema.Bytes("max_record").Default("8MiB").Range(1, 1<<30).Doc("The longest record. A longer one goes to `error`, with its beginning."),
	}
}

// newInput reads the fields of inputFields.
func newInput(init *node.Init) (input, error) {
	c := init.Config
	in := input{options: format.Options{Name: c.String("format"), Columns: c.Strings("columns"), MaxRecord: int(c.Int("max_record"))}}
	var err error
	if in.options.Delimiter, err = delimiterOf(c); err != nil {
		return in, err
	}
	check := in.options
	switch in.options.Name {
	case "auto":
		in.options.Name, check.Name = "", format.CSV
	case format.Parquet:
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
		warnCSV(init, "format", c.String("format"))
	}
	return in, nil
}

// delimiterOf reads the field delimiter of kinds that read or write.
func delimiterOf(c schema.Config) (byte, error) {
	text := c.String("delimiter")
	if len(text) != 1 {
		return 0, c.Errorf("delimiter", diag.CodeBadValue, "must be one ASCII character, got %q", text).WithHint("write one such as \";\", or \"\\t\" for a tab")
	}
	return text[0], nil
}

// warnCSV warns of fields that only CSV has.
func warnCSV(init *node.Init, field, format string) {
	for _, name := range []string{"delimiter", "columns"} {
		if c := init.Config; c.Has(name) {
			init.AddWarning(c.Errorf(name, diag.CodeNoEffect, "only CSV has %s: with %s: %s it does nothing", name, field, format).WithHint("write %s: csv, or remove it", field))
		}
	}
}

// of completes the input for a file, by its extensions.
func (in input) of(path string) input {
	in.packing = packingOf(path)
	ext := strings.ToLower(filepath.Ext(path[:len(path)-len(in.packing)]))
	if in.options.Name != "" {
		return in
	}
	switch ext {
	case ".ndjson", ".jsonl":
		in.options.Name = format.NDJSON
	case ".csv":
		in.options.Name = format.CSV
	case ".tsv":
		in.options.Name, in.options.Delimiter = format.CSV, '\t'
	case ".json":
		in.options.Name = format.JSON
	case ".parquet":
		in.options.Name = format.Parquet
	default:
		in.options.Name = format.Lines
	}
	return in
}

// packingOf returns the extension of a compressed file, in lower case; "" of another.
func packingOf(path string) string {
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".gz" || ext == ".zst" {
		return ext
	}
	return ""
}

// packed reports whether the positions in the file are not bytes of it: it is read when
// it is whole, and not followed.
func (in input) packed() bool { return in.packing != "" || in.table() }

// table reports whether the file is Parquet: its positions are numbers of rows.
func (in input) table() bool { return in.options.Name == format.Parquet }

// maxWindow is the memory that a zstd stream may ask for: as much as with zstd --long=27.
const maxWindow = 128 << 20

// unpack returns a reader of what a file has from an offset on, after unpacking.
func (in input) unpack(f *os.File, offset int64) (io.Reader, error) {
	at := offset
	if in.packing != "" {
		at = 0
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return nil, err
	}
	var src io.Reader
	var err error
	switch in.packing {
	case "":
		return f, nil
	case ".gz":
		src, err = gzip.NewReader(f)
	default:
		// Without concurrency it starts no goroutine, and need not be closed.
		src, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, src, offset)
	}
	if err != nil && !(err == io.EOF && offset > 0) {
		return nil, unpackError(in.packing, err)
	}
	return unpacker{src, in.packing}, nil
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
