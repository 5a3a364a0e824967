package streams

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"

	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed log.md
var logPage string

func logDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "log",
		Summary: "Writes a payload to the program's log, and sends it on.",
		Page:    node.ReadPage(logPage),
		Config: schema.Fields(
			schema.Enum("level", "debug", "info", "warn", "error").Default("info").Doc("The level of the record."),
			schema.String("message").Default("payload").Doc("The message. It may hold expressions over the payload."),
			schema.Bytes("bytes").Default("4KiB").Range(0, 1<<20).Doc("How much of the payload is written; 0 is nothing."),
		),
		In:     []node.Port{{Name: "in", Doc: "A payload."}},
		Out:    []node.Port{{Name: "out", Doc: "The same payload."}},
		Traits: node.Fixed(node.Traits{Is: node.SendsOn | node.Inside, Shape: node.Passes}),
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &logger{level: levels[c.String("level")], most: int(c.Int("bytes")), log: init.Log}
			var err error
			n.message, err = template.OfField(c, "message", template.Compiler(o.Languages, o.Language))
			return n, err
		},
	}
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// A logger is a node of kind log.
type logger struct {
	level   slog.Level
	message template.Template
	most    int // bytes of a payload
	log     *slog.Logger
}

// Receive writes a record.
func (n *logger) Receive(p node.Process, pkt node.Packet) node.Result {
	run, durable := node.RunOf(p)
	if durable && run.Replays() || !n.log.Enabled(context.Background(), n.level) {
		return node.Send(0, pkt.Payload)
	}
	message, err := n.message.Text(p.Context(), pkt.Payload)
	if err != nil {
		return node.Fail(fmt.Errorf("message: %w", err))
	}
	var attrs []slog.Attr
	if n.most > 0 {
		attrs = append(attrs, slog.String("payload", n.text(pkt.Payload)))
	}
	n.log.LogAttrs(context.Background(), n.level, message, attrs...)
	return node.Send(0, pkt.Payload)
}

// text returns a payload as JSON, or its beginning.
func (n *logger) text(payload value.Value) string {
	text, err := payload.AppendJSON(nil)
	if err != nil { // a number that JSON does not have
		text = []byte(payload.String())
	}
	return node.Clip(string(text[:min(len(text), n.most+1)]), n.most)
}
