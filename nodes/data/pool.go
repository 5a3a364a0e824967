package data

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/value"
)

// A dbDriver connects to the databases of one kind.
type dbDriver interface {
	// syntax is how its statements are written.
	syntax() syntax

	// connect makes a connection. A *fatalError is one that will not go away.
	connect(ctx context.Context) (conn, error)

	// limits are how many connections and how many transactions there may be at a
	// time; 0 is without limit.
	limits() (conns, transactions int)

	// lacks reports whether the error of preparing a statement says that it names what is not
	// there, such as a table, or is wrong.
	lacks(err error) bool

	// describe returns an error as workflows see it; nil if it knows nothing of it.
	describe(err error) *node.Error
}

// A conn is one connection. One goroutine at a time uses it.
type conn interface {
	// run runs a statement once for each row of arguments, which are in the order of
	// its binds, and adds what it gives to a result. An error in a transaction undoes
	// what this call did, and leaves the transaction open if it can: see state.
	run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error

	// begin begins a transaction; a driver may do that together with the first
	// statement. isolation is one that check accepted, or empty.
	begin(ctx context.Context, isolation string) error
	commit(ctx context.Context) error
	rollback(ctx context.Context) error

	state() state

	// ping finds out whether a connection that was idle still works.
	ping(ctx context.Context) error
	close()
}

// A state is what can be done with a connection.
type state uint8

const (
	stateIdle state = iota // there is no transaction
	stateOpen              // a transaction is open
	stateLost              // the connection is of no use any more
)

// A fatalError is a reason why connecting need not be tried again.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// A pool is the connections to one database, for all nodes that name it in the same way, of all
// generations.
type pool struct {
	driver dbDriver
	clock  node.Clock
	log    *slog.Logger
	size   int
	texts  *scripts

	// Each connection in use has taken a token; the channel has those that are left.
	tokens chan struct{}
	// writer has one for each transaction that may begin; nil is without limit. A goroutine
	// takes from writer before it takes from tokens.
	writer chan struct{}

	mu struct {
		sync.Mutex
		idle   []idleConn // the one used last is last
		closed bool
	}
	opening sync.Mutex // serialises the first connection
	opened  bool       // guarded by opening
	key     *node.Key[*transaction]
	entry   sync.Mutex // guards finding or making the transaction of a process
}

type idleConn struct {
	conn
	since time.Time
}

const (
	checkAfter = time.Second     // a connection that was idle for longer is checked before use
	closeAfter = 5 * time.Minute // one that was idle for longer is closed
)

// pauses are the waits between attempts to connect when a node starts.
var pauses = field.Backoff{Initial: 100 * time.Millisecond, Factor: 2, Max: 5 * time.Second}

func newPool(d dbDriver, size int, clock node.Clock, log *slog.Logger) *pool {
	conns, transactions := d.limits()
	if conns > 0 {
		size = min(size, conns)
	}
	p := &pool{driver: d, clock: clock, log: log, size: size, texts: newScripts(d.syntax()), tokens: fill(size), key: node.NewKey[*transaction]("sql transaction")}
	if transactions > 0 {
		p.writer = fill(transactions)
	}
	return p
}

func fill(n int) chan struct{} {
	tokens := make(chan struct{}, n)
	for range n {
		tokens <- struct{}{}
	}
	return tokens
}

// open returns when the database was reached once. It tries until ctx is done, or until the
// error will not go away.
func (p *pool) open(ctx context.Context) error {
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.opened {
		return nil
	}
	for failed := 1; ; failed++ {
		c, err := p.acquire(ctx)
		if err == nil {
			p.release(c)
			p.opened = true
			return nil
		}
		var fatal *fatalError
		if errors.As(err, &fatal) {
			return err
		}
		pause := pauses.Wait(failed)
		if ctx.Err() == nil {
			p.log.Warn("the database cannot be reached, and is tried again", "error", err, "pause", pause)
		}
		if p.clock.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// acquire returns a connection for the caller alone, until it is released.
func (p *pool) acquire(ctx context.Context) (conn, error) {
	if err := p.await(ctx, p.tokens); err != nil {
		return nil, &node.Error{Err: fmt.Errorf("all %d connections are in use: %w", p.size, err), Status: http.StatusServiceUnavailable, Code: codeBusy, Outage: true}
	}
	return p.take(ctx)
}

// await takes a token. Only if there is none, the clock has to know the goroutine.
func (p *pool) await(ctx context.Context, tokens <-chan struct{}) error {
	select {
	case <-tokens:
		return nil
	default:
		return p.clock.Wait(ctx, tokens)
	}
}

// lockWriter waits for the others that change something, where the database lets one at a time
// do so: its own wait is a poll. who is what they are.
func (p *pool) lockWriter(ctx context.Context, who string) error {
	if p.writer == nil {
		return nil
	}
	if err := p.await(ctx, p.writer); err != nil {
		return failure(fmt.Errorf("another %s is writing to the database: %w", who, err), codeBusy, "")
	}
	return nil
}

func (p *pool) unlockWriter() {
	if p.writer != nil {
		p.writer <- struct{}{}
	}
}

// run runs a statement on a connection, without a transaction.
func (p *pool) run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	c, err := p.acquire(ctx)
	if err != nil {
		return err
	}
	defer p.release(c)
	return c.run(ctx, st, rows, to)
}

// try is acquire for a goroutine that the clock does not know: it does not wait for a
// connection that is in use.
func (p *pool) try(ctx context.Context) (conn, error) {
	select {
	case <-p.tokens:
		return p.take(ctx)
	default:
		return nil, failure(fmt.Errorf("all %d connections are in use", p.size), codeBusy, "")
	}
}

// take returns a connection. The caller has taken a token, which is given back if there is an
// error.
func (p *pool) take(ctx context.Context) (conn, error) {
	for {
		c, since, ok := p.pop()
		if !ok {
			c, err := p.driver.connect(ctx)
			if err != nil {
				p.tokens <- struct{}{}
				return nil, err
			}
			return c, nil
		}
		if p.clock.Now().Sub(since) < checkAfter || c.ping(ctx) == nil {
			return c, nil
		}
		c.close()
	}
}

// pop takes the connection that was used last.
func (p *pool) pop() (c conn, since time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.mu.idle)
	if n == 0 {
		return nil, since, false
	}
	last := p.mu.idle[n-1]
	p.mu.idle[n-1] = idleConn{}
	p.mu.idle = p.mu.idle[:n-1]
	return last.conn, last.since, true
}

// release gives a connection back. One in the middle of a transaction is closed, as
// that ends the transaction.
func (p *pool) release(c conn) {
	now := p.clock.Now()
	var old conn
	p.mu.Lock()
	if c.state() == stateIdle && !p.mu.closed {
		p.mu.idle = append(p.mu.idle, idleConn{c, now})
		c = nil
		if first := p.mu.idle[0]; len(p.mu.idle) > 1 && now.Sub(first.since) > closeAfter {
			old = first.conn
			p.mu.idle = append(p.mu.idle[:0], p.mu.idle[1:]...)
		}
	}
	p.mu.Unlock()
	if c != nil {
		c.close()
	}
	if old != nil {
		old.close()
	}
	p.tokens <- struct{}{}
}

// Close closes the connections.
func (p *pool) Close() error {
	p.mu.Lock()
	idle := p.mu.idle
	p.mu.idle, p.mu.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
	return nil
}

// The codes of errors, for all databases.
const (
	codeBadQuery   = "bad_query"
	codeBusy       = "busy"
	codeConnection = "connection"
	codeFull       = "full"
	codeMissing    = "missing"
	codeTimeout    = "timeout"
	codeUnique     = "unique"
	codeForeign    = "foreign_key"
	codeCheck      = "check"
	codeNotNull    = "not_null"
	codeConflict   = "conflict"
	codeCommit     = "commit"
	codeOnce       = "once"
)

// statuses are the status of each code that has one.
var statuses = map[string]int{
	codeBusy: http.StatusServiceUnavailable, codeConnection: http.StatusServiceUnavailable,
	codeFull: http.StatusServiceUnavailable, codeConflict: http.StatusServiceUnavailable,
	codeTimeout: http.StatusGatewayTimeout,
	codeUnique:  http.StatusConflict, codeForeign: http.StatusConflict,
	codeCheck: http.StatusUnprocessableEntity, codeNotNull: http.StatusUnprocessableEntity,
}

// failure is an error of a database as workflows see it. own is the database's own code.
func failure(err error, code, own string) *node.Error {
	fields := []value.Field{{Name: "retry", Value: value.Bool(code == codeConflict || code == codeBusy)}}
	if own != "" {
		fields = append(fields, value.Field{Name: "sqlstate", Value: value.String(own)})
	}
	return &node.Error{Err: err, Status: statuses[code], Code: code, Outage: code == codeConnection || code == codeBusy || code == codeFull, Data: value.UniqueMap(fields)}
}

// failed describes an error. ctx is the context of the statement.
func (p *pool) failed(ctx context.Context, err error) error {
	var described *node.Error
	switch {
	case errors.As(err, &described):
		return err
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errTimeout):
		var unreachable *unreachableError
		if errors.As(err, &unreachable) {
			return failure(fmt.Errorf("the database cannot be reached (%w)", err), codeConnection, "")
		}
		return failure(fmt.Errorf("%w (%w)", errTimeout, err), codeTimeout, "")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if e := p.driver.describe(err); e != nil {
		return e
	}
	return err
}

var errTimeout = errors.New("the statement has taken longer than its timeout")

// badQuery is the error of a payload that is not a query.
func badQuery(format string, args ...any) error {
	return node.Unusable(codeBadQuery, fmt.Errorf(format, args...))
}
