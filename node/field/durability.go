package field

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// Durability is which processes of a trigger are durable, and how.
type Durability struct {
	Within time.Duration // how long a client waits for the answer; 0 is until it is there

	level  node.Level
	when   lang.Program // nil: always
	key    lang.Program // nil: no key
	scope  lang.Program // nil: the headers of caller
	keyTTL time.Duration
	strip  []string
}

// The words of the levels.
const (
	levelNone       = "none"
	levelAccept     = "accept"
	levelCheckpoint = "checkpoint"
)

// caller are the headers that say who has sent a request.
var caller = []string{"Authorization", "Cookie"}

// evalLimit is how long an expression of the field may take.
const evalLimit = time.Second

// NewDurability declares the field durability of a trigger.
func NewDurability() *schema.Field {
	return schema.Group("durability", schema.Fields(
		schema.Enum("level", levelNone, levelAccept, levelCheckpoint).Default(levelNone).Doc("What a crash must not lose: with `accept` the request, which starts again until it has ended; with `checkpoint` the results of its effects, too, so that it goes on. A word in place of the object is the level."),
		schema.Expr("when").Doc("Which requests: those for which it is true. Without it, all."),
		schema.Expr("key").Doc("The idempotency key of the request, a text; null for none. What comes with a key that was there before gets the answer of the first."),
		schema.Duration("key_ttl").Default(24*time.Hour).Range(float64(time.Second), float64(366*24*time.Hour)).Doc("How long a key is remembered."),
		schema.Expr("scope").Doc("Whose key it is: the same key of another is another request. Without it, the headers `Authorization` and `Cookie`."),
		schema.Duration("respond_within").Default(time.Duration(0)).Doc("How long the client waits for the answer. Past it the answer is 202 with the id of the run, which goes on. 0 is as long as it takes."),
		schema.Strings("strip").Default([]string{"header.Authorization", "header.Cookie"}).Doc("Fields of the request that are not stored: the run has them until a crash, and must not depend on them after it. `[]` stores all."),
	)).Short("level").Doc("Makes processes that survive a crash of the program. It takes `start --journal`.")
}

// NewMessageDurability declares the field durability of a trigger whose messages have ids, and are answered
// by other means than the end of a request.
func NewMessageDurability() *schema.Field {
	return schema.Group("durability", schema.Fields(
		schema.Enum("level", levelNone, levelAccept, levelCheckpoint).Default(levelNone).Doc("What a crash must not lose: with `accept` the message, which starts again until it has been answered; with `checkpoint` the results of its effects, too, so that it goes on, and may wait for days. A word in place of the object is the level."),
		schema.Strings("strip").Default([]string{}).Doc("Fields of the message that are not stored, such as `raw`: the process has them until a crash, and must not depend on them after it."),
	)).Short("level").Doc("Makes messages and their processes survive a crash of the program. It takes `start --journal`.")
}

// MessageDurabilityOf reads the field of [NewMessageDurability]; nil if no process is durable.
func MessageDurabilityOf(c schema.Config) *Durability {
	g := c.Group("durability")
	d := &Durability{level: levels[g.String("level")], strip: g.Strings("strip")}
	if d.level == node.LevelNone {
		return nil
	}
	return d
}

// levels are those of the words.
var levels = map[string]node.Level{levelNone: node.LevelNone, levelAccept: node.LevelAccept, levelCheckpoint: node.LevelCheckpoint}

// DurableTrait returns [node.Durable] if all processes of a trigger with the config are durable.
func DurableTrait(c schema.Config) (t node.Trait) {
	if g := c.Group("durability"); !g.Has("when") {
		t = MessageDurableTrait(c)
	}
	return t
}

// MessageDurableTrait is [DurableTrait] with the field of [NewMessageDurability].
func MessageDurableTrait(c schema.Config) (t node.Trait) {
	if c.Group("durability").String("level") != levelNone {
		t = node.Durable
	}
	return t
}

// DurabilityGives returns what a trigger with the config gives to its processes.
func DurabilityGives(c schema.Config) []string {
	if c.Group("durability").String("level") == levelCheckpoint {
		return []string{node.GivesDurability}
	}
	return nil
}

// DurabilityOf reads the field of a config; nil if no process is durable.
func (o Options) DurabilityOf(c schema.Config) (*Durability, error) {
	g := c.Group("durability")
	d := &Durability{level: levels[g.String("level")], Within: g.Duration("respond_within"), keyTTL: g.Duration("key_ttl"), strip: g.Strings("strip")}
	if d.level == node.LevelNone {
		return nil, nil
	}
	var errs [3]error
	d.when, errs[0] = o.Expr(g, "when", lang.Options{Condition: true, Timeout: evalLimit})
	d.key, errs[1] = o.Expr(g, "key", lang.Options{Timeout: evalLimit})
	d.scope, errs[2] = o.Expr(g, "scope", lang.Options{Timeout: evalLimit})
	return d, errors.Join(errs[:]...)
}

// Submission returns what a durable process starts with for a request, and whether it is durable.
func (d *Durability) Submission(ctx context.Context, payload value.Value) (s node.Submission, durable bool, err error) {
	if d.when != nil {
		v, err := d.when.Eval(ctx, payload)
		if err != nil {
			return s, false, fmt.Errorf("durability.when: %w", err)
		}
		if !v.Truth() {
			return s, false, nil
		}
	}
	s = node.Submission{Level: d.level, Payload: payload, Strip: d.strip, KeyTTL: d.keyTTL}
	s.Key, err = d.keyOf(ctx, payload)
	return s, err == nil, err
}

// maxKey is the longest key of a client, in bytes.
const maxKey = 1024

// keyOf returns the hash of the key of a request and of who has sent it; nil without a key.
func (d *Durability) keyOf(ctx context.Context, payload value.Value) ([]byte, error) {
	if d.key == nil {
		return nil, nil
	}
	key, err := d.key.Eval(ctx, payload)
	if err != nil {
		return nil, fmt.Errorf("durability.key: %w", err)
	}
	text, ok := key.AsString()
	switch {
	case key.IsNull() || ok && text == "":
		return nil, nil
	case !ok:
		return nil, fmt.Errorf("durability.key: want a text or null, got %s", key.Kind())
	case len(text) > maxKey:
		return nil, &node.Error{Err: fmt.Errorf("the idempotency key has more than %d bytes", maxKey), Status: http.StatusBadRequest, Public: true}
	}
	var scope value.Value
	if d.scope != nil {
		if scope, err = d.scope.Eval(ctx, payload); err != nil {
			return nil, fmt.Errorf("durability.scope: %w", err)
		}
	} else {
		header, _ := payload.Get("header")
		var sent []value.Value
		for _, name := range caller {
			v, _ := header.Get(name)
			sent = append(sent, v)
		}
		scope = value.List(sent...)
	}
	sum := sha256.Sum256([]byte(scope.String() + "\x00" + text))
	return sum[:], nil
}
