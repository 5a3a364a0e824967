package chat

import (
	"context"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

const platformTelegram = "telegram"

// pollFor is how long Telegram may wait for the next message.
const pollFor = 50 * time.Second

//go:embed telegram.md
var telegramPage string

func telegramPlatform() *platform {
	return &platform{
		kind: platformTelegram, summary: "Talks to people on Telegram.", address: "https://api.telegram.org",
		page: telegramPage, longest: 4096, sends: true, keeps: true,
		fields: []*schema.Field{
			schema.String("token").Required().Secret().Doc("The token of the bot, from BotFather."),
			schema.String("webhook_secret").Secret().Doc("What requests of Telegram have in `X-Telegram-Bot-Api-Secret-Token`. Required unless `poll`."),
			schema.Bool("poll").Default(false).Doc("Whether to ask for messages instead of waiting for requests."),
		},
		pulls: func(c schema.Config) bool { return c.Bool("poll") },
		hook:  newTelegram,
	}
}

// telegramToken is the form of a token: the bot's id, and its secret.
var telegramToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{5,}$`) })

// A telegram reads requests of Telegram, and sends messages there.
type telegram struct {
	*api
	token, bot, secret string
	poll               bool
	log                *slog.Logger
}

func newTelegram(init *node.Init, a *api) (webhook, error) {
	c := init.Config
	h := &telegram{api: a, token: c.String("token"), secret: c.String("webhook_secret"), poll: c.Bool("poll"), log: init.Log}
	if !telegramToken().MatchString(h.token) {
		return nil, c.Errorf("token", diag.CodeBadValue, "is not a token of a bot").WithHint("it has the form 123456:ABC-DEF, and comes from BotFather").AsPlain()
	}
	h.bot, _, _ = strings.Cut(h.token, ":")
	if !h.poll && h.secret == "" {
		return nil, c.Errorf("webhook_secret", diag.CodeBadValue, "is required unless poll is true").WithHint("make one with: openssl rand -hex 32; and give it to setWebhook as secret_token").AsPlain()
	}
	return h, nil
}

// read checks the secret of a request, and reads its update.
func (h *telegram) read(r *request, _ time.Time) (*platformEvent, value.Value, error) {
	if h.secret == "" {
		return nil, value.Null(), errNoWebhook
	}
	if subtle.ConstantTimeCompare([]byte(r.get("X-Telegram-Bot-Api-Secret-Token")), []byte(h.secret)) != 1 {
		return nil, value.Null(), errUnsigned("the secret token of the webhook is missing or wrong")
	}
	e, err := h.event(r.body)
	return e, value.Null(), err
}

// event reads an update. One that is not a message is nil.
func (h *telegram) event(v value.Value) (*platformEvent, error) {
	id := textOrNumber(v, "update_id")
	if id == "" {
		return nil, public(http.StatusBadRequest, "want an update of Telegram")
	}
	e := &platformEvent{once: id}
	e.platform, e.raw = platformTelegram, v
	var m, from value.Value
	if callback, has := v.Get("callback_query"); has {
		m, from, e.data = at(callback, "message"), at(callback, "from"), at(callback, "data")
		e.event, e.id, e.text = eventAction, textOrNumber(callback, "id"), textOrNumber(callback, "data")
		// The answer to the request ends the clock on the button.
		e.answer = func(bool) value.Value {
			return object(map[string]any{"method": "answerCallbackQuery", "callback_query_id": e.id})
		}
	} else if joined, has := v.Get("my_chat_member"); has {
		m, from = joined, at(joined, "from")
		if status := textOrNumber(joined, "new_chat_member", "status"); status != "member" && status != "administrator" {
			return nil, nil
		}
		e.event, e.id = eventJoin, id
	} else if m, has = v.Get("message"); has {
		from = at(m, "from")
		if e.text = textOrNumber(m, "text"); e.text == "" {
			e.text = textOrNumber(m, "caption")
		}
		e.event, e.id = eventOf(e.text), textOrNumber(m, "message_id")
		e.files = telegramFiles(m)
		if _, has := m.Get("new_chat_members"); has {
			e.event = eventJoin
		} else if e.text == "" && len(e.files) == 0 {
			return nil, nil // a pinned message, a changed photo, and so on
		}
	}
	e.to.channel = textOrNumber(m, "chat", "id")
	if e.to.channel == "" || at(from, "is_bot").Truth() {
		return nil, nil // an event that was not asked for
	}
	e.conversation = platformTelegram + "/" + h.bot + "/" + e.to.channel
	e.to.conversation = e.conversation
	e.userID = textOrNumber(from, "id")
	e.userName = strings.TrimSpace(textOrNumber(from, "first_name") + " " + textOrNumber(from, "last_name"))
	return e, nil
}

// telegramFiles returns the files of a message. Their bytes come from getFile, with the id
// that is the address here.
func telegramFiles(m value.Value) (files []file) {
	for _, kind := range []string{"document", "audio", "video", "voice", "photo"} {
		f, has := m.Get(kind)
		if !has {
			continue
		}
		if f.Kind() == value.KindList && f.Len() > 0 { // a photo in several sizes
			f = f.At(f.Len() - 1)
		}
		bytes, _ := at(f, "file_size").AsInt()
		files = append(files, file{Name: textOrNumber(f, "file_name"), URL: "telegram:" + textOrNumber(f, "file_id"), Type: textOrNumber(f, "mime_type"), Size: bytes})
	}
	return files
}

// at returns what is in maps within maps; null if it is not there.
func at(v value.Value, names ...string) value.Value {
	for _, name := range names {
		v, _ = v.Get(name)
	}
	return v
}

// textOrNumber returns what is in maps within maps as text; empty if it is not there.
func textOrNumber(v value.Value, names ...string) string {
	v = at(v, names...)
	if v.IsNull() {
		return ""
	}
	s, _ := textOf(v)
	return s
}

func (h *telegram) find(conversation string) (target, error) {
	chat, ok := strings.CutPrefix(conversation, platformTelegram+"/"+h.bot+"/")
	if !ok || chat == "" {
		return target{}, fmt.Errorf("conversation: want telegram/%s/CHAT, got %q", h.bot, node.Clip(conversation, 80))
	}
	return target{conversation: conversation, channel: chat}, nil
}

// method calls a method of the Bot API.
func (h *telegram) method(ctx context.Context, name string, body map[string]any, timeout time.Duration) (value.Value, error) {
	v, err := h.call(ctx, http.MethodPost, name, "/bot"+h.token+"/"+name, object(body), timeout)
	var e *apiError
	if errors.As(err, &e) && v.Kind() == value.KindMap {
		if seconds, parseErr := strconv.Atoi(textOrNumber(v, "parameters", "retry_after")); parseErr == nil && seconds > 0 {
			e.retryAfter = time.Duration(seconds) * time.Second
		}
	}
	if err != nil {
		return v, err
	}
	return at(v, "result"), nil
}

func (h *telegram) post(ctx context.Context, to target, text string, buttons []button) (string, error) {
	v, err := h.method(ctx, "sendMessage", telegramMessage(to, text, buttons), apiTimeout)
	return textOrNumber(v, "message_id"), err
}

func (h *telegram) edit(ctx context.Context, to target, id, text string, buttons []button) error {
	body := telegramMessage(to, text, buttons)
	body["message_id"], _ = strconv.ParseInt(id, 10, 64)
	_, err := h.method(ctx, "editMessageText", body, apiTimeout)
	var e *apiError
	if errors.As(err, &e) && strings.Contains(e.says, "message is not modified") {
		return nil
	}
	return err
}

func (h *telegram) silent(context.Context, target) error { return nil }

func telegramMessage(to target, text string, buttons []button) map[string]any {
	body := map[string]any{"text": text, "link_preview_options": map[string]any{"is_disabled": true}}
	body["chat_id"] = to.channel
	if id, err := strconv.ParseInt(to.channel, 10, 64); err == nil {
		body["chat_id"] = id
	}
	if len(buttons) > 0 {
		var rows [][]map[string]string
		for _, b := range buttons {
			key := map[string]string{"text": b.Text, "callback_data": b.Data}
			if b.URL != "" {
				key = map[string]string{"text": b.Text, "url": b.URL}
			}
			rows = append(rows, []map[string]string{key})
		}
		body["reply_markup"] = map[string]any{"inline_keyboard": rows}
	}
	return body
}

// feedBy implements [feeder].
func (h *telegram) feedBy() []string {
	if !h.poll {
		return nil
	}
	return []string{h.base, h.token}
}

// feed asks for messages until ctx ends. A message is confirmed when it was taken.
func (h *telegram) feed(ctx context.Context, b *branch) {
	next := int64(0)
	for failed := 0; ctx.Err() == nil; {
		v, err := h.method(ctx, "getUpdates", map[string]any{"offset": next, "timeout": int(pollFor.Seconds())}, pollFor+apiTimeout)
		pause := time.Duration(0)
		if failed++; err == nil {
			failed = 0
		} else if ctx.Err() == nil {
			h.log.Warn("Telegram gives no messages", "error", err)
			pause = pauseAfter(failed, err)
		}
		for _, update := range v.Elems() {
			id, _ := strconv.ParseInt(textOrNumber(update, "update_id"), 10, 64)
			e, err := h.event(update)
			if err == nil && e != nil {
				_, err = b.takeOnce(ctx, e)
			}
			if err == nil && e != nil && e.event == eventAction {
				// It only ends the clock on the button: a failure changes nothing else.
				_, _ = h.method(ctx, "answerCallbackQuery", map[string]any{"callback_query_id": e.id}, apiTimeout)
			}
			if err != nil && id != 0 { // too many wait: it comes again
				pause = max(pause, time.Second)
				break
			}
			next = max(next, id+1)
		}
		if pause > 0 {
			_ = b.clock.Sleep(ctx, pause) // the loop checks ctx
		}
	}
}
