package chat

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// slackReply is how long Slack may take for its first message, for the answer to a
	// ping, and to take a confirmation; slackPing is how long between pings.
	slackReply, slackPing = 10 * time.Second, 15 * time.Second

	// slackLinger is how long a connection is read on that Slack is about to end.
	slackLinger = 30 * time.Second

	// slackSettled is how long a connection has to last, or the next one waits as after a
	// failure.
	slackSettled = time.Minute

	// slackGoodbye is how long Slack may take to confirm the end of a connection.
	slackGoodbye = time.Second

	// slackLargest is how many bytes a message of Slack may have.
	slackLargest = 4 << 20
)

// feedBy implements [feeder].
func (h *slack) feedBy() []string {
	if h.app == nil {
		return nil
	}
	return []string{h.base, h.appToken}
}

// feed keeps a connection to Slack until ctx ends. When Slack is about to end one, the next
// is made while it is still read.
func (h *slack) feed(ctx context.Context, b *branch) {
	var links sync.WaitGroup
	defer links.Wait()
	for failed := 0; ctx.Err() == nil; {
		l, err := h.link(ctx, b)
		if err == nil {
			began := b.clock.Now()
			links.Go(func() { l.run(ctx) })
			if b.clock.Wait(ctx, l.leaving) != nil {
				return
			}
			if err = l.why; b.clock.Now().Sub(began) >= slackSettled {
				failed = -1
			}
		}
		if failed++; ctx.Err() != nil {
			return
		}
		if failed == 0 {
			h.log.Debug("the connection to Slack is made again", "reason", err)
			continue
		}
		h.log.Warn("Slack gives no messages", "error", err)
		_ = b.clock.Sleep(ctx, pauseAfter(failed, err)) // the loop checks ctx
	}
}

// A slackLink is a connection to Slack.
type slackLink struct {
	hook   *slack
	branch *branch
	ws     *websocket.Conn

	alive context.Context // ends with the connection
	kill  context.CancelFunc

	once    sync.Once
	leaving chan struct{} // closed when another connection is needed
	why     error         // the reason for that, from then on
}

// leave says that another connection is needed.
func (l *slackLink) leave(why error) {
	l.once.Do(func() {
		l.why = why
		close(l.leaving)
	})
}

// run takes what comes until the connection ends, which it does soon after ctx.
func (l *slackLink) run(ctx context.Context) {
	var keeper sync.WaitGroup
	keeper.Go(func() { l.keep(ctx) })
	l.leave(l.takeAll(ctx))
	l.kill()
	keeper.Wait()
	_ = l.ws.CloseNow() // it has ended
}

// keep asks whether Slack is still there, and ends the connection when ctx ends.
func (l *slackLink) keep(ctx context.Context) {
	for {
		due := make(chan struct{})
		stop := l.branch.clock.AfterFunc(slackPing, func(context.Context) { close(due) })
		select {
		case <-due:
			if l.inTime(func() error { return l.ws.Ping(l.alive) }) != nil {
				l.kill()
			}
		case <-l.alive.Done():
			stop()
			return
		case <-ctx.Done():
			stop()
			abandon := time.AfterFunc(slackGoodbye, l.kill)
			_ = l.ws.Close(websocket.StatusNormalClosure, "") // Slack need not confirm it
			abandon.Stop()
			return
		}
	}
}

// inTime ends the connection if f takes too long.
func (l *slackLink) inTime(f func() error) error {
	defer l.branch.clock.AfterFunc(slackReply, func(context.Context) { l.kill() })()
	return f()
}

// takeAll takes what comes, and confirms it: what is refused comes again.
func (l *slackLink) takeAll(ctx context.Context) error {
	for ends := false; ; {
		v, err := l.read()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			continue // nothing starts any more: it is not confirmed, and comes again
		}
		if textOrNumber(v, "type") == "disconnect" {
			if l.leave(errEnd(v)); !ends {
				ends = true
				defer l.branch.clock.AfterFunc(slackLinger, func(context.Context) { l.kill() })()
			}
			continue
		}
		id, e := l.hook.envelope(v)
		if id == "" {
			continue // nothing to confirm
		}
		if e != nil {
			if _, err := l.branch.takeOnce(ctx, e); err != nil {
				continue
			}
		}
		data, err := object(map[string]any{"envelope_id": id}).AppendJSON(nil)
		if err == nil {
			err = l.inTime(func() error { return l.ws.Write(l.alive, websocket.MessageText, data) })
		}
		if err != nil {
			return fmt.Errorf("the connection was lost: %w", err)
		}
	}
}

// read returns the next message of Slack.
func (l *slackLink) read() (value.Value, error) {
	_, data, err := l.ws.Read(l.alive)
	if err != nil {
		return value.Value{}, fmt.Errorf("the connection was lost: %w", err)
	}
	v, err := value.ParseJSON(data)
	if err != nil || v.Kind() != value.KindMap {
		return v, errors.New("the platform sends what is not a map of JSON")
	}
	return v, nil
}

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
