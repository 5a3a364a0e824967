package kafka

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed kafka_source.md
var kafkaSourcePage string

func sourceDef() stream.Source {
	return stream.Source{
		Kind:    "kafka_source",
		Summary: "Starts a process for each message of topics of Kafka.",
		Page:    node.ReadPage(kafkaSourcePage),
		Config: clientFields(
			schema.Strings("topics").Required().Doc("The topics to read."),
			schema.String("group").Doc("The consumer group: its members share the partitions, and Kafka keeps the position of each partition. Without it, this node reads all partitions: see `checkpoint.file`."),
			schema.String("transaction").Doc("The name of a transaction, which each copy of the program needs for itself: every `kafka_sink` with this name writes together with the positions of `group`, so that each message takes effect once. A transaction ends each `checkpoint.interval`, or each 100 ms if that is unset."),
			schema.Duration("session").Default("10s").Range(float64(500*time.Millisecond), float64(30*time.Minute)).Doc("If a member of the group is silent for so long, for example because it was killed, others get its partitions. The brokers have limits, such as 6s."),
			schema.String("start").Default("first").Words(true, "first", "last").Doc("Where reading begins if no position of a partition is kept: at its `first` message, after its `last`, or at a time such as `2026-01-31T00:00:00Z`."),
		),
		Traits: stream.Traits{Lanes: true, Positions: true, Checkpoints: true, Order: stream.OrderRecord},
		Open:   openSource,
		Holds: func(c schema.Config) []node.Hold {
			name := c.String("transaction")
			if name == "" {
				return nil
			}
			return []node.Hold{{What: "transaction", Name: name, Field: "transaction", Hint: "give each source a transaction of its own"}}
		},
	}
}

// handOver is how long processes may run on whose partition another member gets. It is
// half of the time that the group waits.
const handOver = 30 * time.Second

// A sourceReader reads the partitions of topics. The client connects again by itself, so
// Read does not lose the connection.
type sourceReader struct {
	connector
	topics []string
	group  string
	start  kgo.Offset
	most   int32 // bytes of one fetch, decompressed
	memory *node.Memory
	held   *node.Account // of what is read ahead
	resume map[string]map[int32]kgo.Offset

	oneTurn int // messages of a partition, before the messages of the next one

	host    stream.Host
	client  *kgo.Client
	ahead   *ahead                  // of the client
	watcher atomic.Pointer[watcher] // of the client
	warned  map[string]time.Time    // by error; owned by Read
	tx      *transactor             // nil without a transaction

	mu struct {
		sync.Mutex
		reading bool                          // the messages that Read has returned last are with the runtime
		closing bool                          // the runtime has settled what it will
		lanes   map[partition]int32           // of those that were read
		used    []bool                        // by lane
		taken   []stream.Message              // that Read has returned last
		pending []batch                       // read, but past the room
		turn    int                           // of pending, whose messages are next
		commit  map[partition]kgo.EpochOffset // not yet accepted
		stopped map[partition]error           // that have a batch which is too large
	}
}

type partition struct {
	topic  string
	number int32
}

func openSource(init *node.Init) (stream.Reader, error) {
	c, err := newConnector(init)
	if err != nil {
		return nil, err
	}
	r := &sourceReader{
		connector: c, topics: c.config.Strings("topics"), group: c.config.String("group"), warned: map[string]time.Time{},
		memory: init.Memory, held: init.Memory.Account(init.Node.Kind),
	}
	r.mu.lanes, r.mu.commit, r.mu.stopped = map[partition]int32{}, map[partition]kgo.EpochOffset{}, map[partition]error{}
	if slices.Contains(r.topics, "") {
		return nil, c.config.Errorf("topics", diag.CodeBadValue, "has an empty name").WithHint("write one such as orders")
	}
	if r.group != "" && c.config.Group("checkpoint").Has("file") {
		return nil, c.config.Group("checkpoint").Errorf("file", diag.CodeBadValue, "is not used with a group, whose positions are kept by Kafka").WithHint("remove group, or checkpoint.file")
	}
	if name := c.config.String("transaction"); name != "" {
		if r.tx, err = newTransactor(init, name); err != nil {
			return nil, err
		}
	}
	if r.oneTurn = 512; c.config.String("order") == "key" && !c.config.Has("key") {
		r.oneTurn = 16 // messages of one partition wait for each other
	}
	switch text := c.config.String("start"); text {
	case "first":
		r.start = kgo.NewOffset().AtStart()
	case "last":
		r.start = kgo.NewOffset().AtEnd()
	default:
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, c.config.Errorf("start", diag.CodeBadValue, "is not a place to start at").WithHint("write first, last, or a time such as 2026-01-31T00:00:00Z")
		}
		r.start = kgo.NewOffset().AfterMilli(at.UnixMilli())
	}
	r.most = int32(max(min(c.config.Int("bytes"), 32<<20)/2, leastAhead)) // one is asked for while another is processed
	return r, nil
}

// Position implements [stream.Resumer].
func (r *sourceReader) Position(m stream.Mark) (lane, position string) {
	rec := m.Token.(*kgo.Record)
	return rec.Topic + "/" + strconv.Itoa(int(rec.Partition)), strconv.FormatInt(rec.Offset+1, 10)
}

// Resume implements [stream.Resumer].
func (r *sourceReader) Resume(positions map[string]string) error {
	r.resume = map[string]map[int32]kgo.Offset{}
	for lane, position := range positions {
		slash := strings.LastIndexByte(lane, '/')
		offset, err := strconv.ParseInt(position, 10, 64)
		number, numberErr := strconv.ParseInt(lane[slash+1:], 10, 32)
		if slash < 1 || err != nil || numberErr != nil || offset < 0 || number < 0 {
			return fmt.Errorf("position %q of %q: want an offset, of topic/partition", position, lane)
		}
		topic := lane[:slash]
		if !slices.Contains(r.topics, topic) {
			continue // it was read once
		}
		if r.resume[topic] == nil {
			r.resume[topic] = map[int32]kgo.Offset{}
		}
		r.resume[topic][int32(number)] = kgo.NewOffset().At(offset)
	}
	return nil
}

// Connect implements [stream.Reader].
func (r *sourceReader) Connect(ctx context.Context, h stream.Host) error {
	r.host = h
	largest := kgo.MaxDecompressBatchBytes(largestBatch(r.memory))
	r.ahead = newAhead(int64(r.most), r.held)
	opts := []kgo.Opt{
		kgo.ConsumeTopics(r.topics...),
		kgo.ConsumeStartOffset(r.start),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // nothing is left out
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(min(r.most, firstAhead)), kgo.FetchMaxPartitionBytes(min(r.most, partitionAhead)), kgo.WithHooks(r.ahead), kgo.WithDecompressor(r.ahead),
		kgo.FetchMaxWait(time.Second),
		kgo.KeepRetryableFetchErrors(), // to say which topic is gone
	}
	if r.group != "" {
		opts = append(opts, r.groupOptions()...)
	} else if len(r.resume) > 0 {
		opts = append(opts, kgo.ConsumePartitions(r.resume))
	}
	// Another client asks first: this one would be a member of the group immediately.
	probe, _, err := r.connect(ctx, largest)
	if err != nil {
		return err
	}
	r.ahead.inner = probe.OptValue(kgo.WithDecompressor).(kgo.Decompressor) // it has the limit: the client gives that to one of its own only
	err = missing(ctx, probe, r.topics)
	probe.Close()
	if err != nil {
		return err
	}
	if r.tx != nil {
		return r.tx.connect(ctx, r, opts)
	}
	client, watcher, err := r.connect(ctx, opts...)
	if err != nil {
		return err
	}
	r.client = client
	r.watcher.Store(watcher)
	return nil
}

// Ready implements [node.Readier].
func (r *sourceReader) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.mu.stopped {
		return err
	}
	if r.tx != nil {
		if err := r.tx.ready(); err != nil {
			return err
		}
	}
	return r.watcher.Load().ready()
}

// Settle implements [stream.Reader].
func (r *sourceReader) Settle(ctx context.Context, s stream.Settled) error {
	if r.group == "" {
		return nil
	}
	if r.tx != nil { // they are committed at the end of the transaction
		r.tx.mark(s.Marks)
		return nil
	}
	r.mark(s.Marks)
	return r.commit(ctx)
}

// Fields implements [stream.Reader].
func (r *sourceReader) Fields(m *stream.Message, b *value.MapBuilder) {
	rec := m.Token.(*kgo.Record)
	b.Set("id", value.String(rec.Topic+"/"+strconv.Itoa(int(rec.Partition))+"/"+strconv.FormatInt(rec.Offset, 10)))
	b.Set("topic", value.String(rec.Topic))
	b.Set("partition", value.Int(int64(rec.Partition)))
	b.Set("offset", value.Int(rec.Offset))
	if len(rec.Headers) > 0 {
		b.Set("header", header(rec.Headers))
	}
}

// header is a map of texts, with lists where a name occurs several times. What is not
// UTF-8 is binary.
func header(headers []kgo.RecordHeader) value.Value {
	var names []string
	values := map[string][]value.Value{}
	for _, h := range headers {
		if values[h.Key] == nil {
			names = append(names, h.Key)
		}
		v := value.Binary(h.Value)
		if utf8.Valid(h.Value) {
			v = value.String(string(h.Value))
		}
		values[h.Key] = append(values[h.Key], v)
	}
	fields := make([]value.Field, len(names))
	for i, name := range names {
		fields[i] = value.Field{Name: name, Value: values[name][0]}
		if len(values[name]) > 1 {
			fields[i].Value = value.List(values[name]...)
		}
	}
	return value.UniqueMap(fields)
}

// Close implements [stream.Reader]. Leaving the group calls revoked, with the last commit.
func (r *sourceReader) Close(ctx context.Context) error {
	defer r.held.Close()
	if r.client == nil {
		return nil
	}
	r.mu.Lock()
	r.mu.closing = true
	r.mu.Unlock()
	if r.tx != nil {
		defer r.tx.release(r)
		r.tx.close(ctx, r)
	}
	r.client.AllowRebalance()
	err := r.client.LeaveGroupContext(ctx)
	r.client.Close()
	return err
}
