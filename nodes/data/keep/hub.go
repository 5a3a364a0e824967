package keep

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/value"
)

// A Hub carries messages to the other programs that have it, at most once: what is published while a program is not
// connected does not come to it. It has one connection to listen. Any goroutine may call the methods.
type Hub interface {
	// Publish returns when the server has the message.
	Publish(ctx context.Context, message []byte) error

	// Ready returns why messages of others do not come now; nil if they do.
	Ready() error
	Close() error
}

// OpenHub connects to the database, as Open does, and waits a little until the hub listens. got is called for each
// message of another program, one after the other, and must not block. The place is not in memory.
func (p *Place) OpenHub(ctx context.Context, name string, got func(message []byte)) (Hub, error) {
	sender := []byte(rand.Text()) // begins each message
	others := func(message []byte) {
		if !bytes.HasPrefix(message, sender) && len(message) >= len(sender) {
			got(message[len(sender):])
		}
	}
	if p.redis != nil {
		s, err := p.redis.open(ctx)
		if err != nil {
			return nil, err
		}
		h := &redisHub{s, sender, s.prefix + name, nil}
		h.listener = listen(ctx, p.log, func(ctx context.Context, up func()) error { return h.session(ctx, up, others) })
		return h, nil
	}
	blobs := newSQLBlobs(p.db, p.log, p.table)
	if err := blobs.open(ctx); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(p.table + " " + name)) // a channel has 63 bytes
	h := &sqlHub{blobs, sender, "uniflow_" + hex.EncodeToString(sum[:16]), nil}
	h.listener = listen(ctx, p.log, func(ctx context.Context, up func()) error { return h.session(ctx, p.postgres, up, others) })
	return h, nil
}

// A listener has a session with a server, again and again.
type listener struct {
	stop  context.CancelFunc
	work  sync.WaitGroup
	first chan struct{} // closed when the first session has begun, or could not

	mu struct {
		sync.Mutex
		err error // why there is no session; nil if there is one
	}
}

var errConnecting = errors.New("not connected yet")

// listen begins. session calls up when it listens, and returns why it has ended.
func listen(ctx context.Context, log *slog.Logger, session func(ctx context.Context, up func()) error) *listener {
	running, stop := context.WithCancel(context.Background())
	l := &listener{stop: stop, first: make(chan struct{})}
	l.mu.err = errConnecting
	l.work.Go(func() { l.run(running, log, session) })
	wait, cancel := context.WithTimeout(ctx, redisOpen)
	defer cancel()
	select {
	case <-l.first:
	case <-wait.Done():
	}
	return l
}

const firstPause, longPause = 50 * time.Millisecond, 5 * time.Second

func (l *listener) run(ctx context.Context, log *slog.Logger, session func(ctx context.Context, up func()) error) {
	begun := sync.OnceFunc(func() { close(l.first) })
	defer begun()
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longPause) {
		err := session(ctx, func() {
			pause = firstPause
			l.set(nil)
			begun()
		})
		if ctx.Err() != nil {
			return
		}
		if l.Ready() == nil || !closed(l.first) {
			log.Warn("what other programs publish does not come: the store cannot be reached", "error", err)
		}
		l.set(err)
		begun()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *listener) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.err = err
}

// Ready implements [Hub].
func (l *listener) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err == nil {
		return nil
	}
	return &node.Error{Err: fmt.Errorf("what other programs publish does not come: %w", l.mu.err), Status: http.StatusServiceUnavailable, Code: "lost", Outage: true}
}

func (l *listener) end() {
	l.stop()
	l.work.Wait()
}

// A redisHub uses a channel of Redis.
type redisHub struct {
	*redisStore
	sender  []byte
	channel string
	*listener
}

func (h *redisHub) Ready() error { return h.listener.Ready() }

func (h *redisHub) Publish(ctx context.Context, message []byte) error {
	_, err := h.do(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return h.conn.Do(ctx, "PUBLISH", h.channel, string(h.sender)+string(message))
	})
	return err
}

func (h *redisHub) session(ctx context.Context, up func(), got func([]byte)) error {
	if err := h.conn.Live(ctx); err != nil {
		return err
	}
	ended, end, err := h.conn.Subscribe(ctx, []string{h.channel}, nil, func(m rueidis.PubSubMessage) { got([]byte(m.Message)) })
	if err != nil {
		return err
	}
	defer end()
	up()
	select {
	case err := <-ended:
		if err == nil {
			err = errors.New("the connection has ended")
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *redisHub) Close() error {
	h.end()
	return h.redisStore.Close()
}

// A sqlHub uses notifications of PostgreSQL. One that is too long is a row of the table, and the notification its key.
type sqlHub struct {
	*sqlBlobs
	sender  []byte
	channel string
	*listener
}

const (
	mostNotified = 7900 // the server takes less than 8000 bytes
	rowLasts     = time.Minute

	isMessage, isRow = "m", "r" // what a notification begins with
)

func (h *sqlHub) Publish(ctx context.Context, message []byte) error {
	whole := append(bytes.Clone(h.sender), message...)
	text := isMessage
	if base64.StdEncoding.EncodedLen(len(whole)) <= mostNotified {
		text += base64.StdEncoding.EncodeToString(whole)
	} else {
		key := rand.Text()
		if err := h.Put(ctx, key, whole, rowLasts); err != nil {
			return err
		}
		text = isRow + key
	}
	_, _, err := h.db.Run(ctx, "SELECT pg_notify($1, $2)", value.String(h.channel), value.String(text))
	return err
}

func (h *sqlHub) session(ctx context.Context, config *pgconn.Config, up func(), got func([]byte)) error {
	return data.Listen(ctx, config, h.channel, up, func(payload string) {
		message, err := h.read(ctx, payload)
		if err != nil {
			h.log.Warn("what another program has published is lost", "error", err)
			return
		}
		got(message)
	})
}

func (h *sqlHub) read(ctx context.Context, payload string) ([]byte, error) {
	if payload == "" || payload[:1] != isRow {
		return base64.StdEncoding.DecodeString(payload[min(1, len(payload)):])
	}
	message, ok, err := h.Get(ctx, payload[1:])
	if err == nil && !ok {
		err = fmt.Errorf("its row is gone after %s", rowLasts)
	}
	return message, err
}

func (h *sqlHub) Close() error {
	h.end()
	return h.sqlBlobs.Close()
}
