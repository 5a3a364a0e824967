package nats

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// number returns the number of a request to come.
func (c *connection) number() string { return strconv.FormatUint(c.last.Add(1), 36) }

// request sends a message, whose field Reply it sets. done gets the answer, once, unless
// the error is not nil; without one within the timeout, or soon after, it gets an error.
func (c *connection) request(number string, m *nats.Msg, timeout time.Duration, done func(*nats.Msg, error)) error {
	c.mu.Lock()
	conn := c.mu.conn
	if conn == nil {
		c.mu.Unlock()
		_, err := c.now()
		return lostError(err)
	}
	c.mu.open[number] = &request{m.Subject, time.Now().Add(timeout), done}
	m.Reply = c.mu.inbox + number
	c.mu.Unlock()
	if err := conn.PublishMsg(m); err != nil && c.take(number) != nil {
		return publishError(err)
	}
	return nil // if the connection has ended meanwhile, done knows
}

// fail ends the requests that which reports.
func (c *connection) fail(err error, which func(*request) bool) {
	var ended []*request
	c.mu.Lock()
	for number, r := range c.mu.open {
		if which(r) {
			ended = append(ended, r)
			delete(c.mu.open, number)
		}
	}
	c.mu.Unlock()
	for _, r := range ended {
		r.done(nil, err)
	}
}

// take removes a request that waits; nil if it does not any more.
func (c *connection) take(number string) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.mu.open[number]
	delete(c.mu.open, number)
	return r
}

// answer is called for each message to the inbox, one after the other.
func (c *connection) answer(m *nats.Msg) {
	r := c.take(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	switch {
	case r == nil: // it came too late
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		r.done(nil, nats.ErrNoResponders)
	default:
		r.done(m, nil)
	}
}

// refused fails the requests to a subject that the user must not publish to: the server
// does not say which message it was.
func (c *connection) refused(err error) {
	if subject := deniedSubject(err); subject != "" {
		c.fail(denial(subject), func(r *request) bool { return r.subject == subject })
	}
}

var deniedPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)permissions violation for publish to "([^"]*)"`) })

// deniedSubject returns the subject of an error that says that it must not be published
// to; empty for other errors.
func deniedSubject(err error) string {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return ""
	}
	if found := deniedPattern().FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	return ""
}

func denial(subject string) error {
	return node.Unusable("", fmt.Errorf("the user must not publish to %q", subject))
}

// publishError returns an error of the library as workflows see it.
func publishError(err error) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return node.Unusable("", errors.New("the message is larger than the server takes"))
	case errors.Is(err, nats.ErrBadSubject):
		return node.Unusable("", errors.New("not a subject"))
	}
	return lostError(err)
}

func lostError(err error) error {
	if errors.Is(err, stream.ErrLost) {
		return err
	}
	return fmt.Errorf("%w: %w", stream.ErrLost, err)
}
