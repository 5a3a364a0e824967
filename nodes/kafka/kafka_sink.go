package kafka

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed kafka_sink.md
var kafkaSinkPage string

func sinkDef() stream.Sink {
	return stream.Sink{
		Kind:    "kafka_sink",
		Summary: "Writes messages to topics of Kafka.",
		Page:    node.ReadPage(kafkaSinkPage),
		Config: clientFields(
			schema.String("topic").Required().Doc("The topic, such as `orders` or `orders.${self.body.country}`."),
			schema.String("key").Doc("The key of the message; without it, the field `key` of the payload."),
			schema.String("partition").Doc("The number of the partition, such as `${self.partition}`. Without it, the key decides, in the same way as in the Java client; messages without a key go to any partition."),
			schema.Enum("compression", "none", "gzip", "snappy", "lz4", "zstd").Default("snappy").Doc("How batches are compressed."),
			schema.Bytes("max_message").Default("1MB").Range(1, 1<<30).Doc("The maximum number of bytes in a batch of the client, and so in a message. The topic must allow as many."),
			schema.String("transaction").Doc("The name of the transaction of a `kafka_source` upstream: what a process sends is written when it has ended well, and committed together with the position of its message."),
			schema.Bool("create").Default(false).Doc("Lets brokers create missing topics, if they are configured to do so."),
		),
		Texts: []string{"topic", "key", "partition"},
		Keys:  []string{"topic", "partition", "offset"},
		Open:  openSink,
	}
}

var compressions = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// A sinkWriter writes records. The client connects again by itself.
type sinkWriter struct {
	connector
	hasKey, hasPartition, receipts, constant bool

	client  atomic.Pointer[kgo.Client]
	watcher atomic.Pointer[watcher] // of the client
	calls   calls
}

func openSink(init *node.Init) (stream.Writer, error) {
	c, err := newConnector(init)
	if err != nil {
		return nil, err
	}
	w := &sinkWriter{connector: c, hasKey: c.config.Has("key"), hasPartition: c.config.Has("partition"), receipts: c.config.String("answer") == "receipt", constant: !strings.Contains(c.config.String("topic"), "${")}
	if name := c.config.String("transaction"); name != "" {
		return newBoundWriter(init, w, name)
	}
	return w, nil
}

// Connect implements [stream.Writer].
func (w *sinkWriter) Connect(ctx context.Context) error {
	opts := []kgo.Opt{
		kgo.MaxBufferedRecords(int(max(w.config.Int("max_in_flight"), 1024))),
		kgo.ProducerBatchMaxBytes(int32(w.config.Int("max_message"))),
		kgo.BrokerMaxWriteBytes(int32(max(w.config.Int("max_message")+1<<20, 100<<20))),
		kgo.ProducerBatchCompression(compressions[w.config.String("compression")]),
		kgo.ProducerLinger(0), // what waits for the batch before makes the next one
		kgo.UnknownTopicRetries(2),
		kgo.AllowIdempotentProduceCancellation(), // by the context; RecordDeliveryTimeout counts from Record.Timestamp
	}
	if w.hasPartition {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	create, topic := w.config.Bool("create"), w.config.String("topic")
	if create {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	client, watcher, err := w.connect(ctx, opts...)
	if err != nil {
		return err
	}
	if !create && w.constant {
		if err := missing(ctx, client, []string{topic}); err != nil {
			client.Close()
			var refused *stream.RefusedError
			if errors.As(err, &refused) {
				refused.Field = "topic"
			}
			return err
		}
	}
	w.watcher.Store(watcher)
	if old := w.client.Swap(client); old != nil {
		old.Close()
	}
	return nil
}

// Ready implements [node.Readier].
func (w *sinkWriter) Ready() error { return w.watcher.Load().ready() }

// Write gives records to the client, which makes batches of them.
func (w *sinkWriter) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	client := w.client.Load()
	if client == nil {
		for i := range records {
			done(i, value.Null(), stream.ErrLost)
		}
		return
	}
	ctx, end := context.WithTimeout(ctx, w.config.Duration("timeout"))
	c := w.calls.begin(w, len(records), end, done)
	defer c.leave()
	for i := range records {
		s := &c.slots[i]
		if err := w.record(&s.record, &records[i]); err != nil {
			c.ended(i, value.Null(), err)
			continue
		}
		client.Produce(ctx, &s.record, s.promise)
	}
}

// record fills a record of the client.
func (w *sinkWriter) record(to *kgo.Record, from *stream.Record) error {
	to.Topic, to.Timestamp = from.Texts[0], from.Time
	if to.Topic == "" {
		return node.Unusable("refused", errors.New("the topic is empty"))
	}
	if !from.Body.IsNull() {
		to.Value = from.Raw
	}
	switch {
	case w.hasKey:
		to.Key = bytesOf(from.Texts[1])
	case from.HasKey:
		to.Key = bytesOf(from.Key)
	}
	if w.hasPartition {
		n, err := strconv.ParseInt(from.Texts[2], 10, 32)
		if err != nil || n < 0 {
			return node.Unusable("bad_partition", fmt.Errorf("partition: want the number of one, got %q", from.Texts[2]))
		}
		to.Partition = int32(n)
	}
	for name, v := range from.Header.Fields() {
		if v.Kind() != value.KindList {
			to.Headers = append(to.Headers, kgo.RecordHeader{Key: name, Value: headerBytes(v)})
			continue
		}
		for _, e := range v.Elems() {
			to.Headers = append(to.Headers, kgo.RecordHeader{Key: name, Value: headerBytes(e)})
		}
	}
	return nil
}

func headerBytes(v value.Value) []byte {
	if b, ok := v.AsBinary(); ok {
		return b
	}
	if s, ok := v.AsString(); ok {
		return bytesOf(s)
	}
	return []byte(v.String())
}

// bytesOf returns the bytes of a text, which the client only reads. An empty text is not nil,
// which would be no key.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// failure is an error of the client as workflows see it. If the topic is a constant of the
// workflow, that it does not exist is not the fault of a message.
func failure(topic string, constant bool, err error) error {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return node.Unusable("too_large", fmt.Errorf("the message is larger than max_message, or than the topic %q allows: %w", topic, err))
	case errors.Is(err, kerr.UnknownTopicID): // made again: another client has to find it
		return fmt.Errorf("the topic %q was deleted (%v): %w", topic, err, stream.ErrLost)
	case isMissing(err):
		return &node.Error{Err: fmt.Errorf("the topic %q does not exist, or has no such partition: %w", topic, err), Code: "unknown_topic", Outage: constant}
	case errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp):
		return node.Unusable("refused", fmt.Errorf("topic %q: %w", topic, err))
	case strings.Contains(err.Error(), "invalid record partitioning choice"):
		return node.Unusable("bad_partition", fmt.Errorf("the topic %q has no such partition: %w", topic, err))
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%v: %w", err, stream.ErrLost)
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries), kerr.IsRetriable(err):
		// The brokers are there and cannot take it: without a leader, or with too few in sync.
		return &node.Error{Err: fmt.Errorf("topic %q: %w", topic, err), Status: http.StatusServiceUnavailable, Code: "unavailable", Outage: true}
	}
	return fmt.Errorf("topic %q: %w", topic, err)
}

// Close waits until the client has written what it has.
func (w *sinkWriter) Close(ctx context.Context) error {
	client := w.client.Swap(nil)
	if client == nil {
		return nil
	}
	err := client.Flush(ctx)
	client.Close()
	return err
}
