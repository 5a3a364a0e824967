package redis

import (
	_ "embed"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed redis_source.md
var redisSourcePage string

// The values of mode.
const (
	modeStream  = "stream"
	modeList    = "list"
	modeChannel = "pubsub"
	modeSet     = "set"
)

func source() stream.Source {
	return stream.Source{
		Kind:    "redis_source",
		Summary: "Starts a process for each message of Redis: of a stream, a list or channels.",
		Page:    node.ReadPage(redisSourcePage),
		Config: client.Fields(
			schema.Enum("mode", modeStream, modeList, modeChannel).Default(modeStream).Doc("What is read: a `stream` by a consumer group, a `list`, or channels with `pubsub`."),
			schema.String("stream").Doc("With `mode: stream`: the key of the stream."),
			schema.String("group").Doc("With `mode: stream`: the consumer group, whose members share the messages. It is made if it is missing."),
			schema.String("consumer").Doc("With `mode: stream`: the name of this program in the group, which no other has. Unset, each start has a new one."),
			schema.String("start").Default("first").Doc("With `mode: stream`: where a new group begins: `first`, `last` for what comes from now on, or behind an id such as `1712000000000-0`."),
			schema.String("field").Default("body").Doc("With `mode: stream`: the field of an entry that has the body. The other fields are the header."),
			schema.Bool("delete").Default(false).Doc("With `mode: stream`: deletes an entry when it is acknowledged."),
			schema.String("list").Doc("With `mode: list`: the key of the list."),
			schema.Enum("side", "left", "right").Default("left").Doc("With `mode: list`: the end that messages are taken from. Producers push to the other end."),
			schema.Duration("claim").Default("30s").Range(float64(100*time.Millisecond), float64(24*time.Hour)).Doc("How long a program may show no sign of life before its messages go to another one."),
			schema.Strings("channels").Doc("With `mode: pubsub`: the channels to read."),
			schema.Strings("patterns").Doc("With `mode: pubsub`: patterns of channels, such as `orders.*`."),
		),
		Traits: stream.Traits{Redelivers: true, Overflows: true},
		Open:   openSource,
	}
}

// modeOf are the fields that belong to one mode, apart from claim, which two have.
var modeOf = []struct{ field, mode string }{
	{"stream", modeStream}, {"group", modeStream}, {"consumer", modeStream}, {"start", modeStream}, {"field", modeStream}, {"delete", modeStream},
	{"list", modeList}, {"side", modeList}, {"channels", modeChannel}, {"patterns", modeChannel},
}

// checkModes returns an error for a field of another mode than that of the config.
func checkModes(c schema.Config, fields []struct{ field, mode string }) error {
	for _, f := range fields {
		if c.Has(f.field) && f.mode != c.String("mode") {
			return c.Errorf(f.field, diag.CodeBadValue, "%s belongs to mode: %s", f.field, f.mode).WithHint("write mode: %s, or remove %s", f.mode, f.field)
		}
	}
	return nil
}

// required returns an error if a field is missing or empty.
func required(c schema.Config, field, hint string) error {
	switch {
	case c.String(field) != "":
		return nil
	case c.Has(field):
		return c.Errorf(field, diag.CodeBadValue, "is empty").WithHint("%s", hint)
	}
	return c.Errorf("", diag.CodeBadValue, "mode: %s needs %s", c.String("mode"), field).WithHint("%s", hint)
}

func openSource(init *node.Init) (stream.Reader, error) {
	c := init.Config
	s, err := client.NewSettings(c)
	if err != nil {
		return nil, err
	}
	if err := checkModes(c, modeOf); err != nil {
		return nil, err
	}
	switch c.String("mode") {
	case modeStream:
		return newStreamReader(init, s)
	case modeList:
		return newListReader(init, s)
	}
	return newChannelReader(init, s)
}
