package chat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

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
				_, err = b.takeOnce(e)
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
