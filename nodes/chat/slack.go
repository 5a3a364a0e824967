package chat

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

const platformSlack = "slack"

// signedFor is how old the signature of a request may be, and how much of the future.
const signedFor = 5 * time.Minute

//go:embed slack.md
var slackPage string

func slackPlatform() *platform {
	return &platform{
		kind: platformSlack, summary: "Talks to people on Slack.", address: "https://slack.com/api",
		page: slackPage, longest: 4000, sends: true, raw: true, keeps: true,
		fields: []*schema.Field{
			schema.String("token").Required().Secret().Doc("The bot token of the app, xoxb-…"),
			schema.String("signing_secret").Secret().Doc("The signing secret of the app. Required unless `app_token`."),
			schema.String("app_token").Secret().Doc("An app-level token, xapp-…, for Socket Mode. Without one, messages come as requests."),
		},
		pulls: func(c schema.Config) bool { return c.Has("app_token") },
		hook:  newSlack,
	}
}

// A slack reads requests of Slack, and sends messages there.
type slack struct {
	*api
	secret string // empty without webhooks
	log    *slog.Logger

	app      *api   // for Socket Mode, or nil
	appToken string // of app
}

func newSlack(init *node.Init, a *api) (webhook, error) {
	c := init.Config
	h := &slack{api: a, secret: c.String("signing_secret"), appToken: c.String("app_token"), log: init.Log}
	a.header = bearer(c.String("token"))
	if h.secret == "" && h.appToken == "" {
		return nil, c.Errorf("signing_secret", diag.CodeBadValue, "is required unless there is an app_token").WithHint("it is in the app's settings, Basic Information").AsPlain()
	}
	if h.secret != "" && len(h.secret) < minSecret {
		return nil, c.Errorf("signing_secret", diag.CodeBadValue, "got %d characters, want at least %d", len(h.secret), minSecret).WithHint("it is in the app's settings, Basic Information").AsPlain()
	}
	if err := checkToken(c, "token", "xoxb-", "OAuth & Permissions"); err != nil {
		return nil, err
	}
	if h.appToken != "" {
		if err := checkToken(c, "app_token", "xapp-", "Basic Information, App-Level Tokens"); err != nil {
			return nil, err
		}
		h.app = &api{base: a.base, client: a.client, header: bearer(h.appToken)}
	}
	return h, nil
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// checkTime refuses a signature that is too old, or of the future.
func checkTime(text string, now time.Time) error {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || len(text) > 12 {
		return errUnsigned("the request has no timestamp")
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > signedFor || age < -signedFor {
		return errUnsigned("the signature is older than five minutes, or of the future")
	}
	return nil
}

// read checks the signature of a request, and reads it.
func (h *slack) read(r *request, now time.Time) (*platformEvent, value.Value, error) {
	if h.secret == "" {
		return nil, value.Null(), errNoWebhook
	}
	stamp := r.get("X-Slack-Request-Timestamp")
	if err := checkTime(stamp, now); err != nil {
		return nil, value.Null(), err
	}
	mac := hmac.New(sha256.New, []byte(h.secret))
	mac.Write([]byte("v0:" + stamp + ":"))
	mac.Write(r.raw)
	signature := r.get("X-Slack-Signature")
	if !hmac.Equal([]byte(signature), []byte("v0="+hex.EncodeToString(mac.Sum(nil)))) {
		return nil, value.Null(), errUnsigned("the signature is missing or wrong")
	}
	v := r.body
	if v.Kind() != value.KindMap {
		return nil, value.Null(), public(http.StatusBadRequest, "want a map, got %s", v.Kind())
	}
	switch kind := textOrNumber(v, "type"); {
	case kind == "url_verification":
		return nil, object(map[string]any{"challenge": at(v, "challenge").String()}), nil
	case kind == "event_callback":
		return h.event(v), value.Null(), nil
	}
	if text := formField(v, "payload"); text != "" {
		inner, err := value.ParseJSON([]byte(text))
		if err != nil {
			return nil, value.Null(), public(http.StatusBadRequest, "payload: %v", err)
		}
		return h.action(inner, signature), value.Null(), nil
	}
	if formField(v, "command") != "" {
		return h.command(v), value.Null(), nil
	}
	return nil, value.Null(), nil // something that the app need not know
}

// formField returns a field of a form, of several values the first.
func formField(v value.Value, name string) string {
	field := at(v, name)
	if field.Kind() == value.KindList && field.Len() > 0 {
		field = field.At(0)
	}
	s, _ := field.AsString()
	return s
}

// begin fills in what all events have.
func (h *slack) begin(e *platformEvent, team, channel, thread string, raw value.Value) *platformEvent {
	if team == "" || channel == "" {
		return nil
	}
	e.platform, e.raw = platformSlack, raw
	e.conversation = platformSlack + "/" + team + "/" + channel
	if thread != "" {
		e.conversation += "/" + thread
	}
	e.to = target{conversation: e.conversation, channel: channel, thread: thread}
	return e
}

// event reads an event. One that is not a message of a person is nil.
func (h *slack) event(v value.Value) *platformEvent {
	inner := at(v, "event")
	kind, once := textOrNumber(inner, "type"), textOrNumber(v, "event_id")
	e := &platformEvent{once: once}
	e.id, e.userID = textOrNumber(inner, "ts"), textOrNumber(inner, "user")
	thread := textOrNumber(inner, "thread_ts")
	switch subtype := textOrNumber(inner, "subtype"); {
	case once == "" || e.userID == "" || textOrNumber(inner, "bot_id") != "":
		return nil
	case kind == "member_joined_channel":
		e.event, e.id, thread = eventJoin, once, ""
	case kind == "app_mention", kind == "message" && (subtype == "" || subtype == "file_share"):
		direct := textOrNumber(inner, "channel_type") == "im"
		if kind == "message" && !direct {
			return nil // app_mention comes for those that are for the bot
		}
		if thread == "" && !direct {
			thread = e.id
		}
		e.event, e.text = eventMessage, slackUnescape.Replace(textOrNumber(inner, "text"))
		e.text = strings.TrimSpace(withoutMention(e.text))
		e.files = slackFiles(inner)
	default:
		return nil
	}
	return h.begin(e, textOrNumber(v, "team_id"), textOrNumber(inner, "channel"), thread, v)
}

// withoutMention removes the name of the bot from the beginning of a text.
func withoutMention(text string) string {
	if rest, ok := strings.CutPrefix(strings.TrimSpace(text), "<@"); ok {
		if _, rest, ok = strings.Cut(rest, ">"); ok {
			return rest
		}
	}
	return text
}

func slackFiles(inner value.Value) (files []file) {
	for _, f := range at(inner, "files").Elems() {
		size, _ := strconv.ParseInt(textOrNumber(f, "size"), 10, 64)
		files = append(files, file{Name: textOrNumber(f, "name"), URL: textOrNumber(f, "url_private"), Type: textOrNumber(f, "mimetype"), Size: size})
	}
	return files
}

// action reads the press of a button. Slack gives it no id: once names it.
func (h *slack) action(v value.Value, once string) *platformEvent {
	actions := at(v, "actions")
	if textOrNumber(v, "type") != "block_actions" || actions.Kind() != value.KindList || actions.Len() == 0 {
		return nil
	}
	first := actions.At(0)
	e := &platformEvent{once: once}
	if e.data = at(first, "value"); e.data.IsNull() {
		return nil // a link
	}
	e.event, e.id, e.text = eventAction, textOrNumber(first, "action_ts"), textOrNumber(first, "text", "text")
	e.userID, e.userName = textOrNumber(v, "user", "id"), textOrNumber(v, "user", "name")
	return h.begin(e, textOrNumber(v, "team", "id"), textOrNumber(v, "channel", "id"), textOrNumber(v, "message", "thread_ts"), v)
}

func (h *slack) command(v value.Value) *platformEvent {
	e := &platformEvent{once: formField(v, "trigger_id")}
	if e.once == "" {
		return nil
	}
	arguments := formField(v, "text")
	e.event, e.id = eventCommand, e.once
	e.text, e.data = strings.TrimSpace(formField(v, "command")+" "+arguments), value.String(arguments)
	e.userID, e.userName = formField(v, "user_id"), formField(v, "user_name")
	return h.begin(e, formField(v, "team_id"), formField(v, "channel_id"), "", v)
}

var (
	slackEscape   = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	slackUnescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
)

func (h *slack) find(conversation string) (target, error) {
	parts := strings.Split(conversation, "/")
	if len(parts) < 3 || len(parts) > 4 || parts[0] != platformSlack || parts[2] == "" {
		return target{}, fmt.Errorf("conversation: want slack/TEAM/CHANNEL or slack/TEAM/CHANNEL/THREAD, got %q", node.Clip(conversation, 80))
	}
	to := target{conversation: conversation, channel: parts[2]}
	if len(parts) == 4 {
		to.thread = parts[3]
	}
	return to, nil
}

// slackMethod calls a method of the Web API, whose errors have status 200.
func slackMethod(ctx context.Context, a *api, name string, body value.Value) (value.Value, error) {
	v, err := a.call(ctx, http.MethodPost, name, "/"+name, body, apiTimeout)
	if err != nil {
		return v, err
	}
	if !at(v, "ok").Truth() {
		e := &apiError{method: name, status: http.StatusOK, says: textOrNumber(v, "error")}
		if e.says == "ratelimited" || e.says == "rate_limited" {
			e.status = http.StatusTooManyRequests
		}
		return v, e
	}
	return v, nil
}

func (h *slack) post(ctx context.Context, to target, text string, buttons []button) (string, error) {
	v, err := slackMethod(ctx, h.api, "chat.postMessage", object(slackMessage(to, text, buttons)))
	if err != nil {
		return "", err
	}
	ts := textOrNumber(v, "ts")
	if ts == "" {
		return "", errors.New("chat.postMessage: the answer has no ts")
	}
	return ts, nil
}

func (h *slack) edit(ctx context.Context, to target, id, text string, buttons []button) error {
	body := slackMessage(to, text, buttons)
	body["ts"] = id
	delete(body, "thread_ts")
	_, err := slackMethod(ctx, h.api, "chat.update", object(body))
	return err
}

func (h *slack) silent(context.Context, target) error { return nil }

func slackMessage(to target, text string, buttons []button) map[string]any {
	body := map[string]any{"channel": to.channel, "text": slackEscape.Replace(text), "unfurl_links": false, "unfurl_media": false}
	if to.thread != "" {
		body["thread_ts"] = to.thread
	}
	if len(buttons) == 0 {
		return body
	}
	blocks := []map[string]any{}
	if text != "" {
		blocks = append(blocks, map[string]any{"type": "section", "text": map[string]any{"type": "plain_text", "text": node.Clip(text, 2990)}})
	}
	var elements []map[string]any
	for i, b := range buttons {
		element := map[string]any{"type": "button", "action_id": "b" + strconv.Itoa(i), "text": map[string]any{"type": "plain_text", "text": node.Clip(b.Text, 70)}}
		if b.URL != "" {
			element["url"] = b.URL
		} else {
			element["value"] = b.Data
		}
		elements = append(elements, element)
	}
	body["blocks"] = append(blocks, map[string]any{"type": "actions", "elements": elements})
	return body
}
