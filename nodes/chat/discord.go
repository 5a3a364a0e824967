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
		page: discordPage, longest: 2000, raw: true,
		fields: []*schema.Field{schema.String("public_key").Required().Doc("The public key of the application, in hexadecimal.")},
		hook:   newDiscord,
	}
}

// A discord reads interactions, and answers them.
type discord struct {
	*api
	key ed25519.PublicKey
}

func newDiscord(init *node.Init, a *api) (webhook, error) {
	c := init.Config
	a.header = http.Header{"User-Agent": {"DiscordBot (https://github.com/uniflow-labs/uniflow, 1)"}}
	key, err := hex.DecodeString(c.String("public_key"))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, c.Errorf("public_key", diag.CodeBadValue, "want 64 hexadecimal digits").WithHint("it is in the application's settings, General Information").AsPlain()
	}
	return &discord{api: a, key: key}, nil
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
	e.to = target{conversation: e.conversation, channel: channel, token: url.PathEscape(application) + "/" + url.PathEscape(token), answered: new(bool)}
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

func (h *discord) find(string) (target, error) {
	return target{}, errors.New("only interactions can be answered on Discord")
}

// method calls a webhook of an interaction, whose path has its token.
func (h *discord) method(ctx context.Context, verb, name, path string, body value.Value) (value.Value, error) {
	v, err := h.call(ctx, verb, name, "/webhooks/"+path, body, apiTimeout)
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
	_, err := h.method(ctx, http.MethodPatch, "message", to.token+"/messages/"+url.PathEscape(id), discordBody(text, buttons))
	return err
}

// silent removes "thinking".
func (h *discord) silent(ctx context.Context, to target) error {
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
