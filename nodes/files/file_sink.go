package files

import (
	_ "embed"
	"errors"
	"path/filepath"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed file_sink.md
var fileSinkPage string

func fileSink() stream.Sink {
	return stream.Sink{
		Kind:    "file_sink",
		Summary: "Appends records to files.",
		Page:    node.ReadPage(fileSinkPage),
		Config: schema.Fields(append([]*schema.Field{
			schema.Text("path").Required().Doc("The file, made if it is missing."),
			schema.Bool("append").Default(true).Doc("Keep what the file has. Without it, a file is emptied when the workflow starts and opens it."),
			schema.Group("rotate", schema.Fields(
				schema.Bytes("bytes").Default(0).Doc("How long a file gets; a longer record has one of its own. 0 sets no limit."),
				schema.Duration("interval").Default("0s").Doc("The time that a file is for, such as `1h`, in steps from the beginning of 1970 UTC; the next record after it begins another. 0 sets no limit."),
				schema.Int("keep").Default(0).Range(0, 100_000).Doc("How many old files are kept, except for the one that is written. 0 keeps all."),
			)).Doc("When to begin another file. The old one gets the time in its name: `orders.ndjson` becomes `orders.20260105T100000.000Z.ndjson`."),
			schema.Enum("fsync", "none", "interval", "each").Default("none").Doc("When data is made durable against a loss of power: when the system likes, once a second, or before records are confirmed."),
		}, outputFields()...)...),
		Texts: []string{"path"},
		Raw:   true,
		Lines: linesOf,
		Open:  openFileSink,
	}
}

// linesOf returns the file of a sink that writes JSON to the same one always.
func linesOf(c schema.Config) string {
	path := c.Text("path").Code
	if c.String("encode") != "json" || strings.Contains(path, "${") {
		return ""
	}
	return path
}

// outputFields are the fields of kinds that write.
func outputFields() []*schema.Field {
	return []*schema.Field{
		schema.Enum("encode", "json", "text", "csv", "raw").Default("json").Doc("`json` is a line of JSON; `text` a line of text, which is JSON for lists and maps; `csv` a row, of a map or a list; `raw` is text or binary as it is, without a line end."),
		schema.String("delimiter").Default(",").Doc("Between the fields of CSV: one ASCII character."),
		schema.Strings("columns").Doc("The columns of CSV. Unset takes those of the file, or else the fields of the first record."),
	}
}

// newOutput reads the fields of outputFields.
func newOutput(init *node.Init) (format.Options, error) {
	c := init.Config
	names := map[string]string{"json": format.NDJSON, "text": format.Lines, "csv": format.CSV, "raw": format.Raw}
	o := format.Options{Name: names[c.String("encode")], Columns: c.Strings("columns")}
	var err error
	if o.Delimiter, err = input.DelimiterOf(c); err != nil {
		return o, err
	}
	if err := (format.Options{Name: format.Lines, Columns: o.Columns}).Check(); err != nil {
		return o, c.Errorf("columns", diag.CodeBadValue, "%s", err)
	}
	if err := o.Check(); err != nil {
		return o, c.Errorf("delimiter", diag.CodeBadValue, "%s", err)
	}
	if o.Name != format.CSV {
		input.WarnCSV(init, "encode", c.String("encode"))
	}
	return o, nil
}

func openFileSink(init *node.Init) (stream.Writer, error) {
	c := init.Config
	f, err := newOutput(init)
	rotate := c.Group("rotate")
	o := outputOptions{
		format: f, empty: !c.Bool("append"), sync: c.String("fsync"),
		bytes: rotate.Int("bytes"), interval: rotate.Duration("interval"), keep: int(rotate.Int("keep")),
		clock: init.Clock, log: init.Log,
	}
	s := newSink(init, func(path string) (target, error) { return outputs.acquire(path, o) }, outputs.release)
	text := c.Text("path").Code
	if literal, _, found := strings.Cut(text, "${"); found {
		s.root = filepath.Dir(literal + "x")
	} else if s.path = text; text == "" {
		err = errors.Join(err, c.Errorf("path", diag.CodeBadValue, "must not be empty"))
	}
	return s, err
}
