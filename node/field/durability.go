package field

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// Durability is which processes of a trigger are durable, and how.
type Durability struct {
	Within time.Duration // how long a client waits for the answer; 0 is until it is there

	with   Beginning
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

// credentials are the fields of a request that let others in who read them in the journal.
var credentials = []string{"header.Authorization", "header.Cookie"}

// proxyCredential is another one, which belongs to a proxy before the program, and is in no list.
const proxyCredential = "header.Proxy-Authorization"

// requestFields are the fields of a request: see package envelope, which is not below this one.
var requestFields = []string{"method", "scheme", "host", "path", "query", "protocol", "header", "body", "remote", "id", "raw"}

// tickTTL is how long the key of a tick is remembered, so that it happens once.
const tickTTL = 366 * 24 * time.Hour

// postTTL is how long the id of a message of a person is remembered.
const postTTL = 24 * time.Hour

// evalLimit is how long an expression of the field may take.
const evalLimit = time.Second

// A Beginning is what begins the processes of a trigger.
type Beginning uint8

// The beginnings.
const (
	Requests Beginning = iota // of clients, which wait for an answer and may send them again
	Messages                  // of a source, which acknowledges them
	Ticks                     // of a clock
	Posts                     // of people in conversations, which the trigger answers by itself
)

// NewDurability declares the field durability of a trigger, with what makes sense for what begins its processes.
func NewDurability(with Beginning) *schema.Field {
	what := [...]string{"the request", "the message", "the time of the tick", "the message"}[with]
	fields := []*schema.Field{
		schema.Enum("level", levelNone, levelAccept, levelCheckpoint).Default(levelNone).Doc("What a crash must not lose: with `accept` " + what + ", which starts again until it has ended; with `checkpoint` the results of its effects, too, so that it goes on. A word in place of the object is the level."),
	}
	keyTTL := schema.Duration("key_ttl").Default(24*time.Hour).Range(float64(time.Second), float64(366*24*time.Hour)).Doc("How long a key is remembered.")
	switch with {
	case Requests:
		fields = append(fields,
			schema.Expr("when").Doc("Which requests: those for which it is true. Without it, all."),
			schema.Expr("key").Doc("The idempotency key of the request, a text; null for none. What comes with a key that was there before gets the answer of the first."),
			keyTTL,
			schema.Expr("scope").Doc("Whose key it is: the same key of another is another request. Without it, the headers `Authorization` and `Cookie`."),
			schema.Duration("respond_within").Default(time.Duration(0)).Doc("How long the client waits for the answer. Past it the answer is 202 with the id of the run, which goes on. 0 is as long as it takes."),
			schema.Strings("strip").Default(credentials).Doc("Fields of the request that are not stored, nor given to the run: only `auth` has them. `[]` stores all."),
		)
	case Messages:
		fields = append(fields,
			schema.Expr("when").Doc("Which messages: those for which it is true. Without it, all."),
			schema.Expr("key").Doc("The idempotency key of the message, a text; null for none. A message with a key that was there before starts nothing. Without it, `id` with the body, if the system delivers messages again."),
			keyTTL,
			schema.Strings("strip").Default([]string{}).Doc("Fields of the message that are not stored, nor given to the run."),
		)
	}
	if with == Posts {
		fields = append(fields, schema.Strings("strip").Default([]string{}).Doc("Fields of the message that are not stored, such as `raw`, nor given to the run."))
	}
	return schema.Group("durability", schema.Fields(fields...)).Short("level").Doc("Makes processes that survive a crash of the program: see [durable processes](../durability.md). It takes `start --journal`.")
}

// DurableTrait returns [node.Durable] if all processes of a trigger with the config are durable.
func DurableTrait(c schema.Config) (t node.Trait) {
	if c.Group("durability").String("level") == levelNone {
		return t
	}
	if g, name := c.Find("durability.when"); name == "when" && g.Has(name) { // ticks have none
		return t
	}
	return node.Durable
}

// DurabilityGives returns what a trigger with the config gives to its processes.
func DurabilityGives(c schema.Config) []string {
	if c.Group("durability").String("level") == levelCheckpoint {
		return []string{node.GivesDurability}
	}
	return nil
}

// RunsOf returns what is recorded of the durable processes of a trigger that gets requests; nil if there are none.
func RunsOf(c schema.Config) *node.Runs {
	g := c.Group("durability")
	level := levelOf(g)
	if level == node.LevelNone {
		return nil
	}
	return &node.Runs{Level: level, Strip: stripOf(g)}
}

// stripOf reads the field strip. The names of headers are not case-sensitive.
func stripOf(g schema.Config) []string {
	strip := slices.Clone(g.Strings("strip"))
	for i, path := range strip {
		if name, ok := strings.CutPrefix(path, "header."); ok {
			strip[i] = "header." + textproto.CanonicalMIMEHeaderKey(name)
		}
	}
	if len(strip) > 0 && !stripped(strip, proxyCredential) {
		strip = append(strip, proxyCredential)
	}
	return strip
}

// checkStrip refuses a field strip that names something else than fields of a request, or that leaves out what is in
// it by default: only who lists nothing may have meant that.
func checkStrip(g schema.Config) error {
	strip := stripOf(g)
	if len(strip) == 0 {
		return nil
	}
	for _, path := range strip {
		if root, _, _ := strings.Cut(path, "."); !slices.Contains(requestFields, root) {
			return g.Errorf("strip", diag.CodeBadValue, "a request has no field %q", path).WithHint("write the field as it is in the request, such as header.X-Api-Key or body.password")
		}
	}
	for _, name := range credentials {
		if !stripped(strip, name) {
			return g.Errorf("strip", diag.CodeBadValue, "%s would be stored, and who reads the journal could use it", name).
				WithHint("add %s; strip: [] stores all", name)
		}
	}
	return nil
}

// stripped reports whether a field is in strip, or in a field that is.
func stripped(strip []string, field string) bool {
	return slices.ContainsFunc(strip, func(path string) bool { return path == field || strings.HasPrefix(field, path+".") })
}

func levelOf(g schema.Config) node.Level {
	switch g.String("level") {
	case levelAccept:
		return node.LevelAccept
	case levelCheckpoint:
		return node.LevelCheckpoint
	}
	return node.LevelNone
}

// DurabilityOf reads the field of a config that [NewDurability] has declared; nil if no process is durable.
func (o Options) DurabilityOf(c schema.Config, with Beginning) (*Durability, error) {
	g := c.Group("durability")
	d := &Durability{with: with, level: levelOf(g), keyTTL: tickTTL}
	if d.level == node.LevelNone {
		return nil, nil
	}
	switch with {
	case Ticks:
		return d, nil
	case Posts:
		d.keyTTL, d.strip = postTTL, g.Strings("strip")
		return d, nil
	}
	var errs [4]error
	d.keyTTL, d.strip = g.Duration("key_ttl"), g.Strings("strip")
	d.when, errs[0] = o.Expr(g, "when", lang.Options{Condition: true, Timeout: evalLimit})
	d.key, errs[1] = o.Expr(g, "key", lang.Options{Timeout: evalLimit})
	if with == Requests {
		d.Within = g.Duration("respond_within")
		d.scope, errs[2] = o.Expr(g, "scope", lang.Options{Timeout: evalLimit})
		d.strip, errs[3] = stripOf(g), checkStrip(g)
	}
	return d, errors.Join(errs[:]...)
}

// Starter returns what starts the processes, as durable ones. It refuses one of an engine without a journal.
func (d *Durability) Starter(src node.Starter) (node.DurableStarter, error) {
	if s, ok := src.(node.DurableStarter); ok && s.Durable() {
		return s, nil
	}
	return nil, errors.New("durability takes a journal: start with --journal sqlite:FILE")
}

// Submission returns what a durable process starts with for a payload, and whether it is durable. Without
// the field key, its key is made of id; an empty id makes none.
func (d *Durability) Submission(ctx context.Context, payload value.Value, id string) (s node.Submission, durable bool, err error) {
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
	if s.Key, err = d.keyOf(ctx, payload); s.Key == nil && d.key == nil && id != "" {
		sum := sha256.Sum256([]byte("id\x00" + id))
		s.Key = sum[:]
	}
	return s, err == nil, err
}

// Keyed reports whether the config says what the key of a run is.
func (d *Durability) Keyed() bool { return d.key != nil }

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
	switch {
	case d.with != Requests:
	case d.scope != nil:
		if scope, err = d.scope.Eval(ctx, payload); err != nil {
			return nil, fmt.Errorf("durability.scope: %w", err)
		}
	default:
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
