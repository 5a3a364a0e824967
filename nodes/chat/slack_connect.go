package chat

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// link makes a connection.
func (h *slack) link(ctx context.Context, b *branch) (*slackLink, error) {
	address, err := h.address(ctx)
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	ws, _, err := websocket.Dial(soon, address, &websocket.DialOptions{HTTPClient: h.app.client})
	if err != nil {
		var u *url.Error // its text has the address, and so a ticket
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("the platform cannot be reached: %w", err)
	}
	ws.SetReadLimit(slackLargest)
	l := &slackLink{hook: h, branch: b, ws: ws, leaving: make(chan struct{})}
	l.alive, l.kill = context.WithCancel(context.Background())
	defer context.AfterFunc(ctx, l.kill)()
	defer b.clock.AfterFunc(slackReply, func(context.Context) { l.kill() })()
	v, err := l.read()
	if err == nil && textOrNumber(v, "type") != "hello" {
		err = errEnd(v)
	}
	if err != nil {
		l.kill()
		_ = ws.CloseNow() // there is nothing to say
		return nil, err
	}
	return l, nil
}

// address asks where to connect. The address is a secret, and of use once.
func (h *slack) address(ctx context.Context) (string, error) {
	const name = "apps.connections.open"
	v, err := slackMethod(ctx, h.app, name, value.Null())
	if err != nil {
		var e *apiError
		if errors.As(err, &e) && slices.Contains([]string{"invalid_auth", "not_authed", "not_allowed_token_type", "missing_scope", "token_revoked"}, e.says) {
			err = fmt.Errorf("%w: app_token must be an app-level token with the scope connections:write", err)
		}
		return "", err
	}
	address := textOrNumber(v, "url")
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "wss" && !(u.Scheme == "ws" && strings.HasPrefix(h.base, "http:")) {
		return "", fmt.Errorf("%s: the platform answered with what is not the address of a WebSocket", name)
	}
	return address, nil
}

// errEnd is why Slack ends a connection.
func errEnd(v value.Value) error {
	reason := textOrNumber(v, "reason")
	if reason == "link_disabled" {
		return errors.New("the app's settings have Socket Mode off")
	}
	return fmt.Errorf("the platform has ended the connection: %s", node.Clip(reason, 80))
}

// envelope reads a message of Slack. id is to be confirmed; e is nil for what is not an
// event for the bot.
func (h *slack) envelope(v value.Value) (id string, e *platformEvent) {
	id = textOrNumber(v, "envelope_id")
	payload := at(v, "payload")
	if payload.Kind() != value.KindMap {
		return id, nil
	}
	switch textOrNumber(v, "type") {
	case "events_api":
		e = h.event(payload)
	case "interactive":
		once := textOrNumber(payload, "trigger_id")
		if once == "" {
			once = id
		}
		e = h.action(payload, once)
	case "slash_commands":
		e = h.command(payload)
	}
	return id, e
}
