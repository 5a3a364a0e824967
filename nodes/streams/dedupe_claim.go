package streams

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
)

// A claim is a key that one packet has, where marks are in a database or its process is durable: both
// outlive the process. The first that claims a key has it until its process ends. Then the claim
// becomes a mark, or is released. What comes meanwhile is refused, and has to come again: to wait
// would need a connection, or days.
//
// A claim has the key of its packet, so the run of a process that a crash has ended finds its own.
type claim struct {
	n              *dedupe
	key            state.Key
	id             string // of the key, in the store
	owner, process string // the packet and its process, the same after every crash of a run
	lasts          time.Duration
	has            atomic.Bool // also when its process ends before it is sent
}

// How long a claim lasts if its process never ends, because the program has crashed or the run is put
// aside. A run may wait for days.
const (
	processClaim = 10 * time.Minute
	runClaim     = 30 * 24 * time.Hour
)

var errBusy = &node.Error{
	Err:  errors.New("another process has this key, and has not ended"),
	Code: "busy", Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
}

// claim sends a payload whose key it can claim.
func (n *dedupe) claim(p node.Process, key, payload value.Value) node.Result {
	c := &claim{n: n, key: state.KeyOf(key), owner: rand.Text(), lasts: processClaim}
	c.id = n.idOf(c.key)
	r, durable := node.RunOf(p)
	if durable {
		c.owner, c.process, c.lasts = r.Key(), r.ID(), runClaim
	} else {
		c.process = p.Root().ID()
	}
	p.Root().Enlist(node.PhaseMark, c.end)
	return node.Step(func(ctx context.Context) (value.Value, error) {
		has, err := c.take(ctx)
		if n.outages.Pass(err) {
			return value.Null(), nil
		}
		c.has.Store(has)
		return value.Bool(has), err
	}, func(p node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Fail(resp.Payload.AsError())
		}
		if resp.Payload.IsNull() { // nothing is known of the key
			return node.Send(0, payload)
		}
		if has, _ := resp.Payload.AsBool(); !has {
			return n.duplicate(payload)
		}
		if durable && n.place.InMemory() { // a restart has lost it; if another process was faster, both go on
			if _, err := c.take(p.Context()); err != nil {
				n.log.Warn("a run goes on, and its key is of another process", "node", n.name, "run", c.process, "error", err)
			}
		}
		c.has.Store(true)
		return node.SendThen(0, payload, c.answered)
	})
}

// idOf is a key as a store has it.
func (n *dedupe) idOf(k state.Key) string {
	id := state.KeyOf(value.List(value.String(n.name.Namespace), value.String(n.name.String()), value.String(hex.EncodeToString(k[:]))))
	return hex.EncodeToString(id[:])
}

// duplicate is what becomes of a duplicate.
func (n *dedupe) duplicate(payload value.Value) node.Result {
	n.marks.keys.Claims.Lock()
	defer n.marks.keys.Claims.Unlock()
	return n.share(payload, node.Response{})
}

// ofRun reports whether a run has a key, in memory. The lock is held.
func (n *dedupe) ofRun(k state.Key, now time.Time) bool {
	m, ok := n.marks.store.(*keep.Memory)
	if !ok {
		return false
	}
	if claims, _, _ := m.Count(); claims == 0 {
		return false
	}
	kept, err := m.Load(context.Background(), n.idOf(k), now)
	return err == nil && kept.There
}

// take claims the key, and reports whether the packet has it. It is an error if another process has it.
func (c *claim) take(ctx context.Context) (has bool, err error) {
	m := c.n.marks
	if c.n.place.InMemory() {
		now := c.n.clock.Now()
		m.keys.Claims.Lock()
		defer m.keys.Claims.Unlock()
		switch {
		case m.seen.Has(c.key, now):
			return false, nil
		case m.keys.Busy(c.key, now):
			return false, errBusy
		}
	}
	err = c.change(ctx, func(kept *keep.Kept, now time.Time) (save bool, err error) {
		owner, _ := kept.Values.Get("owner")
		process, _ := kept.Values.Get("process")
		done, _ := kept.Values.Get("done")
		switch marked, _ := done.AsBool(); {
		case !kept.There:
			has = true
			kept.Values, kept.Until = c.values(false), now.Add(c.lasts)
			return true, nil
		case text(owner) == c.owner: // before a crash
			has = true
			return false, nil
		case marked, text(process) == c.process: // payloads of one process fail together
			has = false
			return false, nil
		default:
			return false, errBusy
		}
	})
	return has && err == nil, err
}

// change loads what is kept of the key, and saves what f makes of it, until no one else has changed it
// meanwhile.
func (c *claim) change(ctx context.Context, f func(kept *keep.Kept, now time.Time) (save bool, err error)) error {
	for {
		now := c.n.clock.Now()
		kept, err := c.n.marks.store.Load(ctx, c.id, now)
		if err != nil {
			return err
		}
		if save, err := f(&kept, now); err != nil || !save {
			return err
		}
		if err = c.n.marks.store.Save(ctx, c.id, kept, now); !errors.Is(err, keep.ErrConflict) {
			return err
		}
	}
}

func (c *claim) values(done bool) value.Value {
	return value.Map(value.Field{Name: "owner", Value: value.String(c.owner)}, value.Field{Name: "process", Value: value.String(c.process)}, value.Field{Name: "done", Value: value.Bool(done)})
}

func text(v value.Value) string {
	s, _ := v.AsString()
	return s
}

// answered lets the next payload of the key through if the answer to this one is an error.
func (c *claim) answered(_ node.Process, resp node.Response) node.Result {
	if !resp.IsError() {
		return node.Respond(resp)
	}
	return node.Step(func(ctx context.Context) (value.Value, error) {
		return value.Null(), c.release(ctx)
	}, func(_ node.Process, released node.Response) node.Result {
		if c.has.Store(released.IsError()); released.IsError() { // the end of the process tries it again
			c.n.log.Warn("the key of a payload that has failed was not released", "node", c.n.name, "error", released.Payload.AsError())
		}
		return node.Respond(resp)
	})
}

// end makes a mark of the claim, or releases it. It is a [node.Participant].
func (c *claim) end(ctx context.Context, failure error) (kept bool, err error) {
	ctx = context.WithoutCancel(ctx)
	switch {
	case !c.has.Load(), errors.Is(failure, node.ErrUnloaded): // a run has its claim until it goes on
		return false, nil
	case failure != nil:
		err = c.release(ctx)
	default:
		err = c.mark(ctx)
		kept = err == nil
	}
	if c.n.outages.Pass(err) {
		err = nil
	}
	return kept, err
}

func (c *claim) release(ctx context.Context) error {
	return c.change(ctx, func(kept *keep.Kept, _ time.Time) (save bool, err error) {
		if owner, _ := kept.Values.Get("owner"); text(owner) != c.owner {
			return false, nil
		}
		kept.Values = value.Null()
		return true, nil
	})
}

func (c *claim) mark(ctx context.Context) error {
	if c.n.place.InMemory() { // where processes that are not durable look
		claims := c.n.marks.keys.Claims
		claims.Lock()
		c.n.mark(c.key, node.Response{}, c.n.clock.Now())
		claims.Unlock()
		return c.release(ctx)
	}
	return c.change(ctx, func(kept *keep.Kept, now time.Time) (save bool, err error) {
		if owner, _ := kept.Values.Get("owner"); kept.There && text(owner) != c.owner { // it has lasted too long
			return false, nil
		}
		kept.Values, kept.Until = c.values(true), time.Time{}
		if c.n.ttl > 0 {
			kept.Until = now.Add(c.n.ttl)
		}
		return true, nil
	})
}
