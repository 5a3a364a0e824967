package chat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

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

// method calls a method of the Web API as the bot.
func (h *slack) method(ctx context.Context, name string, body map[string]any) (value.Value, error) {
	return slackMethod(ctx, h.api, name, object(body))
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
	v, err := h.method(ctx, "chat.postMessage", slackMessage(to, text, buttons))
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
	_, err := h.method(ctx, "chat.update", body)
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
