package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// A Conn is the use of one server or cluster, for all nodes of all generations with equal
// settings. Its goroutine connects, and looks for the server again when it is lost. Any
// goroutine may call the methods.
type Conn struct {
	settings *Settings
	stop     context.CancelFunc
	work     sync.WaitGroup
	kick     chan struct{} // has one if the next attempt is to be made now

	mu struct {
		sync.Mutex
		client  rueidis.Client // nil until the first attempt has succeeded; then it stays
		err     error          // why the server is not there; nil if it is
		outcome chan struct{}  // closed at the end of the next attempt
	}
}

// How long a connection waits between attempts; a caller of Live ends the pause. checkEvery is
// how often it looks whether a server that nothing is sent to is there.
const (
	firstPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
	checkEvery = 5 * time.Second
)

// Acquire returns the connection of the settings, which others may share. It may still be
// connecting. Call release once.
func (s *Settings) Acquire(pool *node.Pool) (c *Conn, release func() error, err error) {
	return node.Acquire(pool, s.poolKey(), func() (*Conn, error) { return s.Open(), nil })
}

// Open returns a connection that nothing else uses, and that the caller closes. It may still be
// connecting.
func (s *Settings) Open() *Conn {
	ctx, stop := context.WithCancel(context.Background())
	c := &Conn{settings: s, stop: stop, kick: make(chan struct{}, 1)}
	c.mu.outcome = make(chan struct{})
	c.mu.err = fmt.Errorf("%s: %w: not connected yet", s.Where(), stream.ErrLost)
	c.work.Go(func() { c.keep(ctx) })
	return c
}

// Close disconnects, as [io.Closer] does it, for the pool.
func (c *Conn) Close() error {
	c.stop()
	c.work.Wait()
	return nil
}

// keep looks for the server until ctx ends.
func (c *Conn) keep(ctx context.Context) {
	defer func() {
		if client := c.mu.client; client != nil { // nothing else sets it
			client.Close()
		}
	}()
	for pause := firstPause; ctx.Err() == nil; {
		client, err := c.reach(ctx)
		c.mu.Lock()
		c.mu.client, c.mu.err = client, err
		close(c.mu.outcome)
		c.mu.outcome = make(chan struct{})
		c.mu.Unlock()
		wait := pause
		if err == nil {
			pause, wait = firstPause, checkEvery
		} else {
			pause = min(2*pause, longPause)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.kick:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// reach makes a client, or asks the one that there is whether the server is there.
func (c *Conn) reach(ctx context.Context) (client rueidis.Client, err error) {
	if client = c.mu.client; client == nil { // nothing else sets it
		if client, err = c.settings.open(ctx); err != nil {
			return nil, c.settings.explain(err)
		}
		return client, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		return client, c.settings.explain(err)
	}
	return client, nil
}

// Live returns when the server is there. If it is not, it waits for the outcome of an attempt,
// which is made now. A [*stream.RefusedError] is a reason that will not go away by itself.
func (c *Conn) Live(ctx context.Context) error {
	c.mu.Lock()
	err, outcome := c.mu.err, c.mu.outcome
	c.mu.Unlock()
	if err == nil {
		return nil
	}
	c.retry()
	select {
	case <-outcome:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", c.settings.Where(), context.Cause(ctx))
	}
	return c.Ready()
}

// Ready returns why the server is not there, as far as is known; nil if it is.
func (c *Conn) Ready() error {
	_, err := c.now()
	return err
}

func (c *Conn) now() (rueidis.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.client, c.mu.err
}

// retry ends the pause before the next attempt.
func (c *Conn) retry() {
	select {
	case c.kick <- struct{}{}:
	default: // there is one already
	}
}

// An Answer is what a command was answered with. Its error is never that of a nil answer, for
// which Message.IsNil reports true.
type Answer struct {
	Message rueidis.RedisMessage
	Err     error
}

// Do runs a command, such as "GET", key.
func (c *Conn) Do(ctx context.Context, command ...string) (rueidis.RedisMessage, error) {
	client, err := c.now()
	if err != nil {
		return rueidis.RedisMessage{}, lost(err)
	}
	a := c.answer(ctx, client.Do(ctx, build(client, command)))
	return a.Message, a.Err
}

// DoMulti sends commands together, which run in their order, each with an answer of its own. On
// a cluster, commands of several slots run in any order.
func (c *Conn) DoMulti(ctx context.Context, commands ...[]string) (answers []Answer) {
	answers = make([]Answer, len(commands))
	client, err := c.now()
	if err != nil {
		for i := range answers {
			answers[i].Err = lost(err)
		}
		return answers
	}
	built := make([]rueidis.Completed, len(commands))
	for i, command := range commands {
		built[i] = build(client, command)
	}
	defer func() {
		if p := recover(); p != nil {
			if client.Mode() != rueidis.ClientModeCluster {
				panic(p)
			}
			for i := range answers { // the library has sent nothing
				answers[i].Err = node.Unusable("crossslot", errors.New("the keys of these commands are of several slots of the cluster, and one of the commands has no key"))
			}
		}
	}()
	for i, r := range client.DoMulti(ctx, built...) {
		answers[i] = c.answer(ctx, r)
	}
	return answers
}

// Eval runs a script: its text is sent once to a server. All keys are of one slot.
func (c *Conn) Eval(ctx context.Context, script *rueidis.Lua, keys, args []string) (rueidis.RedisMessage, error) {
	client, err := c.now()
	if err != nil {
		return rueidis.RedisMessage{}, lost(err)
	}
	a := c.answer(ctx, script.Exec(ctx, client, keys, args))
	return a.Message, a.Err
}

// blocking are the commands that may wait for something to happen. They have a connection of
// their own while they do.
var blocking = []string{"BLMOVE", "BLMPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BZMPOP", "BZPOPMAX", "BZPOPMIN", "WAIT", "WAITAOF"}

// build makes a command. Its first argument is taken for its key, by which a cluster finds the
// server: a wrong guess costs a redirection.
func build(client rueidis.Client, command []string) rueidis.Completed {
	b := client.B().Arbitrary(command[0])
	if len(command) > 1 {
		key := 1
		if name := strings.ToUpper(command[0]); (name == "XREADGROUP" || name == "XREAD") && slices.Contains(command, "STREAMS") {
			key = min(slices.Index(command, "STREAMS")+1, len(command)-1)
		}
		b = b.Args(command[1:key]...).Keys(command[key]).Args(command[key+1:]...)
	}
	name := strings.ToUpper(command[0])
	if slices.Contains(blocking, name) || (name == "XREAD" || name == "XREADGROUP") && slices.ContainsFunc(command, func(s string) bool { return strings.EqualFold(s, "BLOCK") }) {
		return b.Blocking()
	}
	return b.Build()
}

// answer sorts what the library has returned.
func (c *Conn) answer(ctx context.Context, r rueidis.RedisResult) (a Answer) {
	err := r.Error()
	if err == nil || rueidis.IsRedisNil(err) {
		a.Message, _ = r.ToMessage() // the error of a nil is not one
		return a
	}
	if _, ok := rueidis.IsRedisErr(err); ok {
		a.Err = Describe(err)
		return a
	}
	if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(end) { // the library has timeouts of its own
		if a.Err = context.Cause(ctx); a.Err == nil {
			a.Err = context.DeadlineExceeded
		}
		c.retry() // it may be that the server is silent
		return a
	}
	var large errTooLarge
	if errors.As(err, &large) {
		a.Err = large.failure()
		return a
	}
	a.Err = fmt.Errorf("%s: %w: %w", c.settings.Where(), stream.ErrLost, err)
	c.mu.Lock()
	if c.mu.err == nil {
		c.mu.err = a.Err
	}
	c.mu.Unlock()
	c.retry()
	return a
}

func lost(err error) error {
	if errors.Is(err, stream.ErrLost) {
		return err
	}
	return fmt.Errorf("%w: %w", stream.ErrLost, err)
}
