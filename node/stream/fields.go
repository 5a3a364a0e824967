package stream

import (
	"errors"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// maxWait is the longest span of time that a field takes.
const maxWait = float64(365 * 24 * time.Hour)

// defaultWhen is the default of retry.when. [retry.again] has it in Go, as an engine
// without that language has sources as well.
const defaultWhen = "!has(self.permanent) && (!has(self.status) || self.status > 499 || self.status in [408, 425, 429])"

// fields returns the common fields that the traits allow.
func (s Source) fields() []*schema.Field {
	t := s.Traits
	orders, which := []string{"none", "key", "total"}, ""
	if t.Order == OrderRecord {
		orders = slices.Insert(orders, 0, "record")
		which = "those whose records have the same key (`record`; one without a key waits until a sink has queued the one before), "
	}
	var fields []*schema.Field
	if !t.Raw {
		decode := t.Decode
		if decode == "" {
			decode = "json"
		}
		fields = append(fields, schema.Enum("decode", "json", "text", "raw").Default(decode).Doc("How a body is decoded: as JSON, as text in UTF-8, or as bytes (`raw`)."))
	}
	fields = append(fields,
		schema.Int("max_in_flight").Default(256).Range(1, 1_000_000).Doc("How many messages may be held that are not settled. When there are so many, reading stops. Unset, it is at least four batches with `batch`."),
		schema.Bytes("bytes").Default("64MiB").Range(1, 1<<40).Doc("How many bytes of messages may be held. When there are so many, reading stops; a single message may be larger."),
		schema.Enum("order", orders...).Default(t.Order.String()).Doc("Which messages are processed one after the other: "+which+"no messages (`none`), those with the same `key`, or all of them (`total`)."),
		schema.Expr("key").Doc("With `order: key`: an expression over the payload. Messages with an equal result are processed one after the other. Without it, those of one partition, file or connection are."),
		schema.Group("batch", schema.Fields(
			schema.Int("count").Default(1000).Range(1, 1_000_000).Doc("The maximum number of messages in a batch."),
			schema.Bytes("bytes").Default("1MiB").Range(1, 1<<40).Doc("A batch with so many bytes takes no more messages."),
			schema.Duration("linger").Default(50*time.Millisecond).Range(0, maxWait).Doc("How long the first message of a batch waits for more. If `max_in_flight` messages are held, it does not wait."),
		)).Doc("Sends lists of messages. Without it, there is a process for each message."),
		schema.Group("retry", schema.Fields(
			schema.Int("threshold").Default(4).Range(0, 1_000_000).Doc("How many times a message is tried again."),
			field.NewBackoff(field.Backoff{Initial: 100 * time.Millisecond, Factor: 2, Max: 30 * time.Second, Jitter: 1},
				"How long to wait before a message is tried again.", "The longest wait, except if an error asks for a longer one."),
			schema.Expr("when").Doc("A condition on the error, as `self`: whether to try again. It is `"+defaultWhen+"` unless set."),
			schema.Duration("give_up").Default(time.Duration(0)).Range(0, maxWait).Doc("How long messages are held while the system that takes them is away: see [outages](../streams.md#outages). After that, each failure counts as a failure of the message. 0 means no limit."),
		)).Doc("What happens after an error."),
		field.NewDurability(field.Messages),
	)
	fields = append(fields, schema.Bool("letters").Default(false).Doc("The messages are [dead letters](../streams.md#dead-letters), as a source has sent them to its port `error`. The node sends on the original message of each. `decode` applies to a body that could not be decoded before."))
	var kept []*schema.Field
	if t.Positions {
		kept = append(kept, schema.Duration("interval").Default(time.Second).Range(float64(time.Millisecond), maxWait).Doc("How often positions are committed. They are also committed after 1000 settled messages, or `max_in_flight` if that is more, and at the end. If twice as many are settled and not committed, reading waits; those behind a message that is still held do not count."))
	}
	if t.Checkpoints {
		kept = append(kept, schema.String("file").Doc("The file that keeps positions, so that reading continues there after a restart. Without it, reading begins again, unless the system keeps positions itself."))
	}
	if len(kept) > 0 {
		fields = append(fields, schema.Group("checkpoint", schema.Fields(kept...)).Doc("How positions are kept."))
	}
	return fields
}

// String returns the word of the field order.
func (o Order) String() string {
	switch o {
	case OrderKey:
		return "key"
	case OrderTotal:
		return "total"
	case OrderRecord:
		return "record"
	}
	return "none"
}

// settings are the common fields of one node.
type settings struct {
	decode string
	limit  int   // messages in flight
	bytes  int64 // of messages in flight
	order  Order
	key    lang.Program // nil: the lane

	batch batching
	retry retry

	interval time.Duration
	file     string // of checkpoints; empty for none
	named    string // the field that names it, if one does
	letters  bool   // messages are dead letters

	durability *field.Durability // nil if no message starts a run

	// reader are the values of all fields but those that a later generation may change
	// without another reader.
	reader []value.Value

	job     bool // the program ends with the work of the source
	maxDead int  // of a job; 0 sets none
}

// batching says when a batch is full. With a count of 0 there are none.
type batching struct {
	count  int
	bytes  int64
	linger time.Duration
}

// swapped are the fields that a later generation may change without another reader.
var swapped = map[string]bool{"retry": true, "decode": true, "durability": true}

// read reads the common fields.
func (s *Source) read(init *node.Init, o Options, fields []schema.FieldInfo) (*settings, error) {
	cfg := init.Config
	set := &settings{limit: InFlight(cfg), bytes: cfg.Int("bytes"), letters: cfg.Bool("letters")}
	if init.Job != nil {
		set.job, set.maxDead = s.Ends != nil && s.Ends(cfg), init.Job.MaxDead
	}
	if !s.Traits.Raw {
		set.decode = cfg.String("decode")
	}
	for _, order := range []Order{OrderNone, OrderKey, OrderTotal, OrderRecord} {
		if cfg.String("order") == order.String() {
			set.order = order
		}
	}
	if cfg.Has("batch") {
		b := cfg.Group("batch")
		set.batch = batching{int(b.Int("count")), b.Int("bytes"), b.Duration("linger")}
	}
	if s.Traits.Positions {
		set.interval = cfg.Group("checkpoint").Duration("interval")
	}
	if s.Traits.Checkpoints {
		set.file, set.named = cfg.Group("checkpoint").String("file"), "checkpoint.file"
	}
	for _, f := range fields {
		if !swapped[f.Name] {
			set.reader = append(set.reader, cfg.Value(f.Name))
		}
	}
	var found diag.List
	if cfg.Has("key") {
		if set.order != OrderKey {
			found.Add(cfg.Errorf("key", diag.CodeBadValue, "key is used with order: key only").WithHint("set order: key, or remove it"))
		}
		program, err := o.Expr(cfg, "key", lang.Options{Timeout: evaluation, Log: init.Log, Warn: init.Warn})
		found.Append(listOf(err))
		set.key = program
	}
	err := set.retry.read(init, o)
	found.Append(listOf(err))
	set.durability, err = o.DurabilityOf(cfg, field.Messages)
	found.Append(listOf(err))
	if set.durability != nil && cfg.Has("batch") {
		found.Add(cfg.Errorf("durability", diag.CodeBadValue, "each message starts a run of its own, and batch is set").WithHint("remove batch, or durability"))
	}
	return set, found.Err()
}

// evaluation is how long one evaluation of an expression may take.
const evaluation = 10 * time.Second

// listOf returns an error as findings.
func listOf(err error) diag.List {
	var list diag.List
	var one *diag.Diagnostic
	switch {
	case err == nil:
		return nil
	case errors.As(err, &list):
		return list
	case errors.As(err, &one):
		return diag.List{one}
	}
	return diag.List{diag.Errorf(diag.CodeBadNode, "%v", err)}
}

// equal reports whether a reader that was made for a can serve b.
func (a *settings) equal(b *settings) bool {
	return slices.EqualFunc(a.reader, b.reader, value.Value.Equal)
}
