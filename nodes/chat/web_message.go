package chat

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// enter returns the room of a token, or of a new conversation without one, for use until
// unpin.
func (n *chatNode) enter(token string, c *caller) (r *room, newToken string, err error) {
	fresh := token == ""
	id := ""
	if fresh {
		id, token = n.signer.mint(c.subject)
	} else {
		var ok bool
		if id, ok = n.signer.verify(token, c.subject); !ok {
			return nil, "", errToken
		}
		token = n.signer.token(id, c.subject) // the secret may have changed
	}
	r, made := n.rooms.open(platformChat + "/" + id)
	if r == nil {
		return nil, "", errCrowd()
	}
	if made && fresh {
		if r.fresh(); n.join {
			n.joined(r, c)
		}
	}
	return r, token, nil
}

// errCrowd refuses what there is no room for.
func errCrowd() error {
	return &node.Error{Err: errMemory, Status: http.StatusServiceUnavailable, Public: true, RetryAfter: time.Second}
}

var errToken = public(http.StatusForbidden, "the token of the conversation is not valid here: begin a new one")

// joined starts the process of a new conversation.
func (n *chatNode) joined(r *room, c *caller) {
	m := message{platform: platformChat, conversation: r.conversation, userID: c.userOf(r), userName: c.name, event: eventJoin, id: rand.Text()}
	if _, err := n.rooms.hand(&turn{room: r, held: heldWeight}, &m); err != nil {
		n.log.Debug("a new conversation was not told of", "conversation", r.conversation, "error", err)
	}
}

// hand takes a message for a turn, and counts what it weighs.
func (h *rooms) hand(t *turn, m *message) (delivered bool, err error) {
	t.room.pins.Add(1) // finish takes both back, maybe before take returns
	h.held.Hold(t.held)
	delivered, err = h.take(m.conversation, m.payload(), t)
	if delivered || err != nil {
		h.held.Free(t.held)
		t.room.unpin()
	}
	return delivered, err
}

func (c *caller) userOf(r *room) string {
	if c.subject != "" {
		return c.subject
	}
	return r.conversation
}

// say takes a message into a room. done, if not nil, gets the answers until the process ends
// or asks back. heard reports whether it will, or has.
func (n *chatNode) say(r *room, c *caller, s *posted, done func([]line)) (id string, heard bool, err error) {
	s.text = strings.TrimSpace(s.text)
	if s.text == "" {
		return "", false, public(http.StatusUnprocessableEntity, "the message has no text")
	}
	if s.id == "" {
		s.id = rand.Text()
	}
	r.fresh()
	id = "u" + s.id
	weight := int64(heldWeight + lineWeight + 2*len(s.text) + 2*len(id))
	if !n.rooms.fits(0, weight) {
		return id, false, errCrowd()
	}
	if !r.say(id, s.text) {
		return id, false, nil // it has come before
	}
	m := message{
		platform: platformChat, conversation: r.conversation, userID: c.userOf(r), userName: c.name,
		text: s.text, event: eventOf(s.text), id: s.id,
	}
	if !s.data.IsNull() {
		m.event, m.data = eventAction, s.data
	}
	asked := r.resume(done)
	data, _ := s.data.AsString()
	delivered, err := n.rooms.hand(&turn{room: r, done: done, held: int64(heldWeight + len(s.text) + len(data))}, &m)
	if asked != nil && !delivered {
		asked.quit()
	}
	if err != nil {
		e := &node.Error{Err: err, Status: http.StatusServiceUnavailable, Public: true, RetryAfter: time.Second}
		if errors.Is(err, errTooFast) {
			e.Status = http.StatusTooManyRequests
		}
		r.unsay(id, err.Error())
		return id, false, e
	}
	return id, !delivered || asked != nil, nil
}

// eventOf distinguishes commands from other messages.
func eventOf(text string) string {
	if len(text) > 1 && text[0] == '/' && text[1] != '/' && text[1] != ' ' {
		return eventCommand
	}
	return eventMessage
}

// receiveMessage takes a message that was posted.
func (n *chatNode) receiveMessage(c *caller) node.Result {
	s, err := n.rooms.read(c.body, n.maxText)
	if err != nil {
		return node.Fail(err)
	}
	r, token, err := n.enter(s.conversation, c)
	if err != nil {
		return node.Fail(err)
	}
	accepted := func(id string) node.Result {
		return reply(http.StatusAccepted, value.UniqueMap([]value.Field{
			{Name: "conversation", Value: value.String(token)}, {Name: "id", Value: value.String(id)},
		}), c.cors()...)
	}
	defer r.unpin()
	if !s.wait {
		id, _, err := n.say(r, c, &s, nil)
		if err != nil {
			return node.Fail(err)
		}
		return accepted(id)
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		var w state.Wait
		w.Begin(ctx, done, nil)
		r, _ := n.rooms.open(r.conversation)
		if r == nil {
			w.Answer(node.Fail(errCrowd()))
			return
		}
		defer r.unpin()
		id, heard, err := n.say(r, c, &s, func(lines []line) {
			messages, err := value.Encode(lines)
			if err != nil {
				w.Answer(node.Fail(err))
				return
			}
			w.Answer(reply(http.StatusOK, value.UniqueMap([]value.Field{
				{Name: "conversation", Value: value.String(token)}, {Name: "messages", Value: messages},
			}), c.cors()...))
		})
		switch {
		case err != nil:
			w.Answer(node.Fail(err))
		case !heard: // the answer belongs to another message
			w.Answer(accepted(id))
		}
	})
}
