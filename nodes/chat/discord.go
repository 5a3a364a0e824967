package chat

import (
	"context"
	"crypto/ed25519"
	_ "embed"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

const platformDiscord = "discord"

// Types of interactions of Discord, and of answers to them.
const (
	discordPing, discordCommand, discordButton            = 1, 2, 3
	discordPong, discordMessage, discordLater, discordAck = 1, 4, 5, 6
)

//go:embed discord.md
var discordPage string

func discordPlatform() *platform {
	return &platform{
		kind: platformDiscord, summary: "Talks to people on Discord, by commands and buttons.", address: "https://discord.com/api/v10",
		page: discordPage, longest: 2000, raw: true, keeps: true,
		fields: []*schema.Field{
			schema.String("public_key").Required().Doc("The public key of the application, in hexadecimal."),
			schema.String("token").Secret().Doc("The token of the bot: with it, answers that come too late for their interaction are messages of the channel. Required with `durability`."),
		},
		hook: newDiscord,
	}
}

// A discord reads interactions, and answers them.
type discord struct {
	*api
	key   ed25519.PublicKey
	bot   *api // for messages that answer no interaction; nil without a token
	clock node.Clock
}

// answerFor is how long an interaction can be answered: 15 minutes, from when Discord has sent it.
const answerFor = 14*time.Minute + 30*time.Second

func newDiscord(init *node.Init, a *api) (webhook, error) {
	c := init.Config
	a.header = http.Header{"User-Agent": {"DiscordBot (https://github.com/uniflow-labs/uniflow, 1)"}}
	key, err := hex.DecodeString(c.String("public_key"))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, c.Errorf("public_key", diag.CodeBadValue, "want 64 hexadecimal digits").WithHint("it is in the application's settings, General Information").AsPlain()
	}
	h := &discord{api: a, key: key, clock: init.Clock}
	switch {
	case c.Has("token"):
		if err := checkToken(c, "token", "letters and digits", "Bot"); err != nil {
			return nil, err
		}
		bot := *a
		bot.header = a.header.Clone()
		bot.header.Set("Authorization", "Bot "+c.String("token"))
		h.bot = &bot
	case field.DurableTrait(c) != 0:
		return nil, c.Errorf("token", diag.CodeBadValue, "is missing").WithHint("an interaction can be answered for 15 minutes, and not after a crash: with the token of the bot, later answers are messages of the channel")
	}
	return h, nil
}

// read checks the signature of an interaction, and reads it.
func (h *discord) read(r *request, now time.Time) (*platformEvent, value.Value, error) {
	stamp := r.get("X-Signature-Timestamp")
	signature, err := hex.DecodeString(r.get("X-Signature-Ed25519"))
	if err != nil || len(signature) != ed25519.SignatureSize || !ed25519.Verify(h.key, append([]byte(stamp), r.raw...), signature) {
		return nil, value.Null(), errUnsigned("the signature is missing or wrong")
	}
	if err := checkTime(stamp, now); err != nil {
		return nil, value.Null(), err
	}
	v := r.body
	if v.Kind() != value.KindMap {
		return nil, value.Null(), public(http.StatusBadRequest, "want a map, got %s", v.Kind())
	}
	n, _ := at(v, "type").AsInt()
	if n == discordPing {
		return nil, object(map[string]any{"type": discordPong}), nil
	}
	e := &platformEvent{once: textOrNumber(v, "id")}
	data := at(v, "data")
	switch n {
	case discordCommand:
		e.event = eventCommand
		e.text, e.data = discordArguments(data)
	case discordButton:
		e.event, e.data = eventAction, at(data, "custom_id")
		e.text, _ = e.data.AsString()
	default:
		return nil, value.Null(), public(http.StatusBadRequest, "the type of the interaction is not known")
	}
	user := at(v, "user")
	if member := at(v, "member"); member.Kind() == value.KindMap {
		user = at(member, "user")
	}
	channel, application, token := textOrNumber(v, "channel_id"), textOrNumber(v, "application_id"), textOrNumber(v, "token")
	if e.once == "" || channel == "" || application == "" || token == "" {
		return nil, value.Null(), public(http.StatusBadRequest, "want an interaction")
	}
	e.platform, e.id, e.raw = platformDiscord, e.once, v.Without("token")
	e.userID, e.userName = textOrNumber(user, "id"), textOrNumber(user, "global_name")
	if e.userName == "" {
		e.userName = textOrNumber(user, "username")
	}
	e.conversation = platformDiscord + "/" + channel + "/" + e.userID
	e.to = target{conversation: e.conversation, channel: channel, until: now.Add(answerFor), token: url.PathEscape(application) + "/" + url.PathEscape(token), answered: new(bool)}
	e.answer = func(delivered bool) value.Value {
		switch {
		case !delivered:
			return object(map[string]any{"type": discordLater})
		case n == discordButton:
			return object(map[string]any{"type": discordAck})
		}
		return object(map[string]any{"type": discordMessage, "data": map[string]any{"content": "✓", "flags": 64}}) // only the user sees it
	}
	return e, value.Null(), nil
}

// discordArguments returns a command as text, and its arguments as a map.
func discordArguments(data value.Value) (text string, arguments value.Value) {
	var all strings.Builder
	all.WriteString("/" + textOrNumber(data, "name"))
	var b value.MapBuilder
	for _, o := range at(data, "options").Elems() {
		v := at(o, "value")
		all.WriteString(" " + v.String())
		b.Set(textOrNumber(o, "name"), v)
	}
	return all.String(), b.Build()
}

func (h *discord) find(conversation string) (target, error) {
	parts := strings.Split(conversation, "/")
	if h.bot == nil || len(parts) != 3 || parts[0] != platformDiscord || parts[1] == "" {
		return target{}, errors.New("only interactions can be answered on Discord")
	}
	return target{conversation: conversation, channel: parts[1]}, nil
}

// late reports whether an answer is a message of the channel, as its interaction is over or not known any more.
func (h *discord) late(to target) bool {
	return h.bot != nil && (to.token == "" || !h.clock.Now().Before(to.until))
}

// ofChannel begins the ids of messages that answer no interaction.
const ofChannel = "channel/"

// method calls a webhook of an interaction, whose path has its token.
func (h *discord) method(ctx context.Context, verb, name, path string, body value.Value) (value.Value, error) {
	return waits(h.call(ctx, verb, name, "/webhooks/"+path, body, apiTimeout))
}

// waits reads how long Discord asks to wait.
func waits(v value.Value, err error) (value.Value, error) {
	var e *apiError
	if errors.As(err, &e) && v.Kind() == value.KindMap {
		if seconds, has := v.Get("retry_after"); has {
			f, _ := seconds.AsFloat()
			if n, isInt := seconds.AsInt(); isInt {
				f = float64(n)
			}
			e.retryAfter = max(e.retryAfter, time.Duration(f*float64(time.Second)))
		}
	}
	return v, err
}

// post sends a message. The first of an interaction takes the place of "thinking".
func (h *discord) post(ctx context.Context, to target, text string, buttons []button) (string, error) {
	if h.late(to) {
		v, err := waits(h.bot.call(ctx, http.MethodPost, "message", "/channels/"+url.PathEscape(to.channel)+"/messages", discordBody(text, buttons), apiTimeout))
		return ofChannel + textOrNumber(v, "id"), err
	}
	if !*to.answered {
		if err := h.edit(ctx, to, "@original", text, buttons); err != nil {
			return "", err
		}
		*to.answered = true
		return "@original", nil
	}
	v, err := h.method(ctx, http.MethodPost, "webhook", to.token+"?wait=true", discordBody(text, buttons))
	return textOrNumber(v, "id"), err
}

func (h *discord) edit(ctx context.Context, to target, id, text string, buttons []button) error {
	if id, is := strings.CutPrefix(id, ofChannel); is {
		_, err := waits(h.bot.call(ctx, http.MethodPatch, "message", "/channels/"+url.PathEscape(to.channel)+"/messages/"+url.PathEscape(id), discordBody(text, buttons), apiTimeout))
		return err
	}
	_, err := h.method(ctx, http.MethodPatch, "message", to.token+"/messages/"+url.PathEscape(id), discordBody(text, buttons))
	return err
}

// silent removes "thinking".
func (h *discord) silent(ctx context.Context, to target) error {
	if h.late(to) {
		return nil
	}
	_, err := h.method(ctx, http.MethodDelete, "message", to.token+"/messages/@original", value.Null())
	return err
}

func discordBody(text string, buttons []button) value.Value {
	var rows []map[string]any
	for i, b := range buttons {
		if i%5 == 0 {
			rows = append(rows, map[string]any{"type": 1, "components": []map[string]any{}})
		}
		part := map[string]any{"type": 2, "style": 2, "label": node.Clip(b.Text, 76), "custom_id": b.Data}
		if b.URL != "" {
			part = map[string]any{"type": 2, "style": 5, "label": node.Clip(b.Text, 76), "url": b.URL}
		}
		row := rows[len(rows)-1]
		row["components"] = append(row["components"].([]map[string]any), part)
	}
	body := map[string]any{"content": text, "allowed_mentions": map[string]any{"parse": []string{}}}
	if rows != nil {
		body["components"] = rows
	}
	return object(body)
}
