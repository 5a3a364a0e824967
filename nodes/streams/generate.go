package streams

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed generate.md
var generatePage string

func generateDef(o stream.Options) *node.Def {
	return stream.Source{
		Kind:    "generate",
		Summary: "Makes messages, as test data.",
		Page:    node.ReadPage(generatePage),
		Config: schema.Fields(
			schema.Int("count").Default(0).Range(0, 1<<53).Doc("How many messages to make; 0 means no limit."),
			schema.Float("rate").Default(0.0).Range(0, 1e7).Doc("How many messages a second, evenly; 0 means as many as the workflow takes."),
			schema.Duration("interval").Doc("The time from one message to the next, in place of `rate`."),
			schema.Any("payload").Doc("The body of a message; its texts may hold expressions. Unset, it is the number of the message."),
		),
		Traits: stream.Traits{Raw: true},
		Ends:   func(c schema.Config) bool { return c.Int("count") > 0 },
		Open: func(init *node.Init) (stream.Reader, error) {
			c := init.Config
			g := &generator{count: c.Int("count"), interval: c.Duration("interval"), plain: !c.Has("payload")}
			if rate := c.Float("rate"); rate > 0 {
				if g.interval > 0 {
					return nil, c.Errorf("interval", diag.CodeBadValue, "rate is set, too").WithHint("remove one of them")
				}
				g.interval = time.Duration(float64(time.Second) / rate)
			}
			var err error
			g.payload, err = template.OfField(c, "payload", template.Compiler(o.Languages, o.Language))
			return g, err
		},
	}.Def(o)
}

// A generator reads messages that it makes.
type generator struct {
	count    int64
	interval time.Duration
	payload  template.Template
	plain    bool

	began time.Time // when the first message was due
	next  int64     // the number of the next message
	made  atomic.Int64
}

// maxGenerated is the most messages of a call of Read.
const maxGenerated = 512

// Connect has nothing to connect to.
func (g *generator) Connect(context.Context, stream.Host) error { return nil }

// Read makes the messages that are due. If it has fallen behind, it makes up for that.
func (g *generator) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	n := int64(min(room.Messages, maxGenerated))
	if g.count > 0 {
		if g.next >= g.count {
			return nil, io.EOF
		}
		n = min(n, g.count-g.next)
	}
	now := time.Now()
	if g.began.IsZero() {
		g.began = now
	}
	if g.interval > 0 {
		if wait := g.began.Add(time.Duration(g.next) * g.interval).Sub(now); wait > 0 {
			if err := (node.SystemClock{}).Sleep(ctx, wait); err != nil {
				return nil, err
			}
			now = time.Now()
		}
		n = max(1, min(n, int64(now.Sub(g.began)/g.interval)+1-g.next))
	}
	messages := make([]stream.Message, n)
	for i := range messages {
		body, err := g.body(ctx, g.next, now)
		if err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
		messages[i] = stream.Message{Body: body, Time: now, Offset: g.next, Token: g.next}
		g.next++
	}
	g.made.Store(g.next)
	return messages, nil
}

// body makes the body of a message.
func (g *generator) body(ctx context.Context, n int64, now time.Time) (value.Value, error) {
	if g.plain {
		return value.Int(n), nil
	}
	body, _, err := g.payload.Render(ctx, generated.Map(value.Int(n), value.Time(now)))
	return body, err
}

// generated is the shape of what the expressions of a payload see.
var generated = value.NewShape("n", "time")

// Settle implements [stream.Reader]: no system waits for it.
func (g *generator) Settle(context.Context, stream.Settled) error { return nil }

// Fields adds the number of the message.
func (g *generator) Fields(m *stream.Message, b *value.MapBuilder) {
	n, _ := m.Token.(int64)
	b.Set("id", value.String(strconv.FormatInt(n, 10)))
	b.Set("n", value.Int(n))
}

// Close has nothing to release.
func (g *generator) Close(context.Context) error { return nil }

// Size returns how many messages have been made, and how many there are to be.
func (g *generator) Size() (done, total int64) { return g.made.Load(), g.count }
