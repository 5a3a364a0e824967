package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed redis_sink.md
var redisSinkPage string

func sink() stream.Sink {
	return stream.Sink{
		Kind:    "redis_sink",
		Summary: "Writes messages to a stream, a list, a channel or keys of Redis.",
		Page:    node.ReadPage(redisSinkPage),
		Config: client.Fields(
			schema.Enum("mode", modeStream, modeList, modeChannel, modeSet).Default(modeStream).Doc("Where messages go: to a `stream`, to a `list`, to a channel with `pubsub`, or each to a key with `set`."),
			schema.String("stream").Doc("With `mode: stream`: the key of the stream. It may have expressions over the payload in it: `orders.${self.body.country}`."),
			schema.Int("max_length").Default(0).Range(0, 1<<40).Doc("With `mode: stream`: about how many entries the stream keeps, the latest; 0 keeps all."),
			schema.String("field").Default("body").Doc("With `mode: stream`: the field of an entry that gets the body."),
			schema.String("list").Doc("With `mode: list`: the key of the list, which may have expressions as `stream`."),
			schema.Enum("side", "left", "right").Default("right").Doc("With `mode: list`: the end that messages are pushed to."),
			schema.String("channel").Doc("With `mode: pubsub`: the channel, which may have expressions as `stream`."),
			schema.String("key").Doc("With `mode: set`: the key, which may have expressions as `stream`."),
			schema.Duration("ttl").Range(float64(time.Millisecond), float64(100*365*24*time.Hour)).Doc("With `mode: set`: after which time the key vanishes; unset, it stays."),
		),
		Texts: []string{"stream", "list", "channel", "key"},
		Keys:  []string{"stream", "list", "channel"},
		Open:  openSink,
	}
}

// targets are the fields of the modes that say where a message goes, with the index in
// [stream.Record.Texts].
var targets = map[string]struct {
	field, example string
	text           int
}{
	modeStream: {"stream", "orders", 0}, modeList: {"list", "jobs", 1}, modeChannel: {"channel", "orders", 2}, modeSet: {"key", "order.${self.body.id}", 3},
}

var sinkModeOf = []struct{ field, mode string }{
	{"stream", modeStream}, {"max_length", modeStream}, {"field", modeStream}, {"list", modeList}, {"side", modeList},
	{"channel", modeChannel}, {"key", modeSet}, {"ttl", modeSet},
}

// A writer writes records over the shared connection, all that wait together.
type writer struct {
	settings     *client.Settings
	pool         *node.Pool
	mode, field  string
	target       string // the field that says where records go
	text         int    // its index in the texts of a record
	constant     string // what it says, if it has no expressions
	push         string
	length, life string // empty without

	conn      *client.Conn // set by the first Connect
	release   func() error
	connected bool // owned by the goroutine that connects
}

func openSink(init *node.Init) (stream.Writer, error) {
	c := init.Config
	s, err := client.NewSettings(c)
	if err != nil {
		return nil, err
	}
	if err := checkModes(c, sinkModeOf); err != nil {
		return nil, err
	}
	to := targets[c.String("mode")]
	if err := required(c, to.field, fmt.Sprintf("add %s, such as %s", to.field, to.example)); err != nil {
		return nil, err
	}
	w := &writer{settings: s, pool: init.Pool, mode: c.String("mode"), field: c.String("field"), target: to.field, text: to.text, push: "RPUSH"}
	if target := c.String(to.field); !strings.Contains(target, "${") {
		w.constant = target
	}
	if c.String("side") == "left" {
		w.push = "LPUSH"
	}
	if n := c.Int("max_length"); n > 0 {
		w.length = strconv.FormatInt(n, 10)
	}
	if ttl := c.Duration("ttl"); ttl > 0 {
		w.life = strconv.FormatInt(ttl.Milliseconds(), 10)
	}
	return w, nil
}

// Connect implements [stream.Writer].
func (w *writer) Connect(ctx context.Context) error {
	if w.conn == nil {
		conn, release, err := w.settings.Acquire(w.pool)
		if err != nil {
			return err
		}
		w.conn, w.release = conn, release
	}
	err := w.conn.Live(ctx)
	if err == nil {
		err = w.find(ctx)
	}
	var refused *stream.RefusedError
	if errors.As(err, &refused) && w.connected {
		return refused.Err // it may go away: it was right before
	}
	w.connected = w.connected || err == nil
	return err
}

// find refuses a key of another type. One that is not there is made by the first record.
func (w *writer) find(ctx context.Context) error {
	if w.constant == "" || w.mode != modeStream && w.mode != modeList {
		return nil
	}
	m, err := w.conn.Do(ctx, "TYPE", w.constant)
	if client.Code(err) == "noperm" {
		return nil // a user that may only add need not be able to look
	}
	if err != nil {
		return err
	}
	if have, err := m.ToString(); err != nil || have != "none" && have != w.mode {
		return &stream.RefusedError{Field: w.target, Err: errors.Join(err, fmt.Errorf("%s is the key of a %s", w.constant, have))}
	}
	return nil
}

// writeMost is how many records are sent together.
const writeMost = 1000

// Write implements [stream.Writer]. It returns when the server has answered.
func (w *writer) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	for first := 0; first < len(records); first += writeMost {
		var commands [][]string
		var at []int
		for i := first; i < min(first+writeMost, len(records)); i++ {
			command, err := w.command(&records[i])
			if err != nil {
				done(i, value.Null(), err)
				continue
			}
			commands, at = append(commands, command), append(at, i)
		}
		if len(commands) == 0 {
			continue
		}
		for j, a := range w.conn.DoMulti(ctx, commands...) {
			i := at[j]
			if a.Err != nil {
				done(i, value.Null(), a.Err)
				continue
			}
			done(i, w.receipt(records[i].Texts[w.text], a.Message), nil)
		}
	}
}

// command makes the command for a record.
func (w *writer) command(r *stream.Record) ([]string, error) {
	to := r.Texts[w.text]
	if to == "" {
		return nil, node.Unusable("", fmt.Errorf("%s: is empty", w.target))
	}
	body := string(r.Raw)
	switch w.mode {
	case modeList:
		return []string{w.push, to, body}, nil
	case modeChannel:
		return []string{"PUBLISH", to, body}, nil
	case modeSet:
		if w.life == "" {
			return []string{"SET", to, body}, nil
		}
		return []string{"SET", to, body, "PX", w.life}, nil
	}
	command := make([]string, 0, 10)
	command = append(command, "XADD", to)
	if w.length != "" {
		command = append(command, "MAXLEN", "~", w.length)
	}
	command = append(command, "*", w.field, body)
	if r.HasKey {
		command = append(command, keyField, r.Key)
	}
	return w.header(command, r.Header)
}

// header adds the fields of a header to a command.
func (w *writer) header(command []string, header value.Value) ([]string, error) {
	if header.IsNull() {
		return command, nil
	}
	if header.Kind() != value.KindMap {
		return nil, node.Unusable("", fmt.Errorf("header: want a map, got %s", header.Kind()))
	}
	for name, v := range header.Fields() {
		if name == w.field || name == keyField {
			return nil, node.Unusable("", fmt.Errorf("header: %q is the field of an entry for something else", name))
		}
		if v.Kind() != value.KindList {
			command = append(command, name, bytesOf(v))
			continue
		}
		for _, e := range v.Elems() {
			command = append(command, name, bytesOf(e))
		}
	}
	return command, nil
}

// bytesOf returns a value as the bytes of an argument: text and binary as they are, others as
// JSON.
func bytesOf(v value.Value) string {
	if b, ok := v.AsBinary(); ok {
		return string(b)
	}
	return v.String()
}

var (
	streamReceipt  = value.NewShape("stream", "entry")
	listReceipt    = value.NewShape("list", "length")
	channelReceipt = value.NewShape("channel", "receivers")
	keyReceipt     = value.NewShape("key")
)

// receipt returns where a record is.
func (w *writer) receipt(to string, m rueidis.RedisMessage) value.Value {
	switch w.mode {
	case modeStream:
		id, _ := m.ToString() // XADD answers with nothing else
		return streamReceipt.Map(value.String(to), value.String(id))
	case modeSet:
		return keyReceipt.Map(value.String(to))
	}
	n, _ := m.AsInt64() // nor do the others
	if w.mode == modeList {
		return listReceipt.Map(value.String(to), value.Int(n))
	}
	return channelReceipt.Map(value.String(to), value.Int(n))
}

// Close implements [stream.Writer]. What was written is confirmed: Write has returned.
func (w *writer) Close(context.Context) error {
	if w.conn == nil {
		return nil
	}
	return w.release()
}
