package s3

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed s3_sink.md
var s3SinkPage string

// partMark stands in a key for what is different for each object.
const partMark = "{part}"

func sinkDef() stream.Sink {
	return stream.Sink{
		Kind:    "s3_sink",
		Summary: "Writes objects of a bucket, each of one message or of many.",
		Page:    node.ReadPage(s3SinkPage),
		Config: withConnection(
			schema.Text("key").Required().Doc("The key of an object, with expressions over the payload: `orders/${self.body.country}/{part}.ndjson`. With `{part}`, which is different for each object, the messages of a batch with the same key make one object. Without it, each message is an object, which replaces the one before."),
			schema.Enum("encode", "ndjson", "json", "csv", "raw", "parquet").Default("ndjson").Doc("`ndjson` is a line of JSON for each row, `csv` a row with a header, `parquet` a table with `schema`. `json` is one value: the body, or the list of them with `{part}`. `raw` is text or binary, one after the other."),
			schema.Bool("rows").Default(false).Doc("The body of a message is a list, and each element is a row. So one message makes an object of many rows."),
			schema.Enum("compress", "none", "gzip", "zstd").Default("none").Doc("How objects are compressed. Parquet compresses its pages, with zstd unless it is gzip."),
			schema.List("schema", schema.Fields(
				schema.String("name").Required().Doc("The name of the column, and of the field of a row."),
				schema.Enum("type", format.ParquetTypes()...).Required().Doc("Its type. A time is in UTC, or a text of RFC 3339. `json` takes any value."),
			)).Doc("The columns of Parquet. Other fields of a row are left out, and a field that is missing is null."),
			schema.String("delimiter").Default(",").Doc("Between the fields of CSV: one ASCII character."),
			schema.Strings("columns").Doc("The columns of CSV. Unset takes the fields of the first row of an object."),
			schema.String("content_type").Doc("The Content-Type of objects. Unset, it is that of `encode`, or of `compress`."),
			schema.Any("metadata").Doc("The metadata of objects: a map of texts."),
			schema.String("storage_class").Doc("The storage class of objects; unset, that of the bucket."),
		),
		Texts:   []string{"key"},
		Batches: true,
		Joins:   func(c schema.Config) bool { return strings.Contains(c.Text("key").Code, partMark) },
		Raw:     true,
		Open:    openSink,
	}
}

// A writer writes objects.
type writer struct {
	settings *settings
	encoding encoding
	part     bool // the key has partMark
	options  minio.PutObjectOptions
	held     *node.Account

	store     *store // set by the first Connect
	connected bool
}

// parallel is how many objects are written at the same time.
const parallel = 8

// sinkTries is how often a request is tried: writing an object again changes nothing.
const sinkTries = 3

func openSink(init *node.Init) (stream.Writer, error) {
	c := init.Config
	w := &writer{part: strings.Contains(c.Text("key").Code, partMark), held: init.Memory.Account(init.Node.Kind)}
	var errs []error
	var err error
	w.settings, err = newSettings(c, sinkTries)
	errs = append(errs, err)
	w.encoding, err = newEncoding(init, w.part)
	errs = append(errs, err)
	w.options = minio.PutObjectOptions{ContentType: w.encoding.contentType(c.String("content_type")), StorageClass: c.String("storage_class")}
	if c.Has("metadata") {
		w.options.UserMetadata, err = textsOf(c.Value("metadata"))
		if err != nil {
			errs = append(errs, c.Errorf("metadata", diag.CodeBadValue, "%s", err))
		}
	}
	if batch, timeout := c.Group("batch"), c.Duration("timeout"); batch.Duration("linger") >= timeout {
		errs = append(errs, batch.Errorf("linger", diag.CodeBadValue, "a message that waits %s in a batch is not written within timeout, which is %s", batch.Duration("linger"), timeout).WithHint("raise timeout above linger, by as much as writing an object takes"))
	}
	return w, errors.Join(errs...)
}

// Connect implements [stream.Writer].
func (w *writer) Connect(ctx context.Context) error {
	if w.store == nil {
		store, err := w.settings.open()
		if err != nil {
			return err
		}
		w.store = store
	}
	err := w.store.check(ctx, "", false)
	var refused *stream.RefusedError
	if errors.As(err, &refused) && w.connected {
		return refused.Err // it was right before, and may be again
	}
	w.connected = w.connected || err == nil
	return err
}

// Write implements [stream.Writer]. It returns when the objects are written.
func (w *writer) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	chains := w.encoding.encode(records, w.part, func(i int, err error) { done(i, value.Null(), err) })
	turns := make(chan struct{}, parallel)
	var work sync.WaitGroup
	for _, chain := range chains {
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			for _, o := range chain {
				receipt, err := w.put(ctx, o)
				for _, i := range o.records {
					done(i, receipt, err)
				}
			}
		})
	}
	work.Wait()
}

// put writes an object. What has begun of one in parts is removed if that fails.
func (w *writer) put(ctx context.Context, o *output) (value.Value, error) {
	if o.fault != nil {
		return value.Null(), node.Unusable("encode", o.fault)
	}
	w.held.Hold(int64(o.data.Len())) // it is what is under way
	defer w.held.Free(int64(o.data.Len()))
	info, err := w.store.put(ctx, o.key, o.data.Bytes(), w.options)
	switch {
	case err != nil && ctx.Err() != nil: // its time is over, or the sink is closed; the answer may be on its way
		return value.Null(), &node.Error{Err: fmt.Errorf("%s: no answer in time: %w", w.store.place(o.key), err), Status: 504, Code: "timeout", Outage: true}
	case err != nil:
		return value.Null(), w.store.failure(err, o.key)
	}
	return receiptShape.Map(value.String(w.store.bucket), value.String(o.key), value.String(info.ETag), versionOf(info.VersionID)), nil
}

var receiptShape = value.NewShape("bucket", "key", "etag", "version")

// versionOf is null in a bucket without versions.
func versionOf(id string) value.Value {
	if id == "" {
		return value.Null()
	}
	return value.String(id)
}

// Close implements [stream.Writer]. Nothing is under way: Write waits.
func (w *writer) Close(context.Context) error {
	if w.store != nil {
		w.store.close()
	}
	w.held.Close()
	return nil
}
