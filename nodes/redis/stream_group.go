package redis

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
)

// The group of a streamReader, and its consumers.

// forget lets go of what the runtime has forgotten with the connection: it is pending.
func (r *streamReader) forget(h stream.Host) {
	held := make(map[string]*entry)
	h.InFlight(func(m *stream.Message) {
		e := m.Token.(*entry)
		held[e.id] = e
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.held = held
}

// ensure makes the group if it is missing. One that replaces another one begins with the oldest
// entry that is not settled.
func (r *streamReader) ensure(ctx context.Context, conn *client.Conn) error {
	start := r.start
	if r.conn != nil {
		var err error
		if start, err = r.resumeAt(ctx, conn); err != nil {
			return err
		}
	}
	_, err := conn.Do(ctx, "XGROUP", "CREATE", r.stream, r.group, start, "MKSTREAM")
	if client.Code(err) == "busygroup" {
		return nil
	}
	return typeError(err, "stream", r.stream, "stream")
}

// resumeAt returns behind which entry a group begins that replaces another one. If it is another
// stream, too, all of its entries are new.
func (r *streamReader) resumeAt(ctx context.Context, conn *client.Conn) (string, error) {
	there, err := conn.Do(ctx, "EXISTS", r.stream)
	if err != nil {
		return "", err
	}
	oldest, ok := r.oldest()
	n, err := there.AsInt64()
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "0", nil
	case !ok:
		return r.start, nil
	}
	m, err := conn.Do(ctx, "XINFO", "STREAM", r.stream)
	if err != nil {
		return "", typeError(err, "stream", r.stream, "stream")
	}
	info, err := m.AsMap()
	if err != nil {
		return "", err
	}
	latest := info["last-generated-id"]
	text, err := latest.ToString()
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, err := parseEntryID(text); err != nil || at.less(r.mu.last) {
		r.mu.last = entryID{}
		return "0", err
	}
	return oldest.String(), nil
}

// oldest returns behind which entry all are that are not settled; ok is false if nothing was
// delivered.
func (r *streamReader) oldest() (id entryID, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id = r.mu.last
	for _, e := range r.mu.held {
		if !id.less(e.at) {
			id = e.at.before()
		}
	}
	for _, d := range r.mu.due {
		if at, err := parseEntryID(d.id); err == nil && !id.less(at) {
			id = at.before()
		}
	}
	return id, id != entryID{}
}

// removal removes a consumer that has nothing pending: what is pending would be lost with it.
var removal = sync.OnceValue(func() *rueidis.Lua {
	return rueidis.NewLuaScript(`
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 0 end
return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])`)
})

func (r *streamReader) removeConsumer(ctx context.Context, name string) error {
	_, err := r.conn.Eval(ctx, removal(), []string{r.stream}, []string{r.group, name})
	return err
}

// longIdle is after which time a consumer counts as gone that had a name of its own.
const longIdle = time.Hour

// removeIdle removes the consumers of programs that have ended in a crash, once others have
// claimed what they had.
func (r *streamReader) removeIdle(ctx context.Context) {
	m, err := r.conn.Do(ctx, "XINFO", "CONSUMERS", r.stream, r.group)
	list, _ := m.ToArray() // empty with an error
	for i := range list {
		c, _ := list[i].AsMap()
		name, pending, idle := c["name"], c["pending"], c["idle"]
		text, _ := name.ToString()
		n, _ := pending.AsInt64()
		ms, _ := idle.AsInt64()
		if strings.HasPrefix(text, consumerPrefix) && n == 0 && time.Duration(ms)*time.Millisecond > max(longIdle, 10*r.claim) && err == nil {
			err = r.removeConsumer(ctx, text)
		}
	}
	if err != nil {
		r.log.Warn("consumers of programs that have ended are not removed", "error", err)
	}
}
