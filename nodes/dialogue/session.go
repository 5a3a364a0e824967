package dialogue

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/session"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed session.md
var sessionPage string

func sessionDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "session",
		Summary: "Gives processes the memory of their client or conversation.",
		Page:    node.ReadPage(sessionPage),
		Config: schema.Fields(
			schema.Expr("key").Doc("An expression over the payload for what the session belongs to. Unset is a signed cookie."),
			schema.Duration("ttl").Default("24h").Doc("How long a session is kept after its last use; 0 sets no limit."),
			schema.Any("init").Doc("The values of a new session, a map; none unless set."),
			schema.Bytes("max").Default("1MiB").Range(1, 1<<30).Doc("The largest session, approximately. The process of one that is larger fails with the code `size`."),
			schema.Int("queue").Default(32).Range(0, 100_000).Doc("How many processes may wait for one session."),
			schema.Duration("patience").Default("1m").Doc("How long a process waits for its turn; 0 sets no limit."),
			schema.Group("cookie", cookieFields()).Doc("The cookie, without `key`."),
			schema.Group("store", storeFields()).Doc("Where sessions are kept."),
		),
		In:  in("A payload."),
		Out: out("The same, in a process that has its session."),
		Traits: func(c schema.Config) node.Traits {
			t := node.Traits{Is: node.Commits, Gives: []string{session.Given}}
			if !c.Has("key") {
				t.Is |= node.SendsParts // it sets a header of the answer
				t.Needs = []node.Need{{What: node.GivesRequest, OfTrigger: true, Idle: true, Hint: "only requests of a listener have a cookie: write what a session belongs to, such as key: self.user"}}
			}
			if c.Group("store").String("driver") == keep.InMemory {
				t.Is |= node.Inside
			}
			return t
		},
		Recall: func(c schema.Config) node.Recall {
			if c.Has("key") {
				return node.Reruns
			}
			return node.Attached // a cookie belongs to the answer of a request
		},
		New: func(init *node.Init) (node.Node, error) { return newSession(init, o) },
	}
}

func storeFields() schema.Object {
	return keep.Fields("sessions", "uniflow_sessions", ", also in `memory`. Nodes with the same one share their sessions: name another one where keys mean something else.",
		schema.Int("capacity").Default(100_000).Range(1, 1<<30).Doc("The most sessions in `memory`."),
		schema.Bytes("bytes").Default("256MiB").Range(1, 1<<50).Doc("The most memory that they take, approximately."),
	)
}

// A sessionNode is a node of kind session.
type sessionNode struct {
	pool     *node.Pool
	memory   *node.Memory
	log      *slog.Logger
	clock    node.Clock
	key      lang.Program // nil is a cookie
	cookies  *cookies     // nil with a key
	init     value.Value
	ttl      time.Duration
	patience time.Duration
	max      int
	queue    int
	limits   state.Limits
	place    *keep.Place
	shared   string // key of the sessions in the pool

	sessions *sessions
	release  []func() error
}

// sessions has the sessions of a store, for all nodes that share it, of all generations.
type sessions struct {
	store keep.Store
	id    string     // of what ends with the program; empty for a database
	entry sync.Mutex // one process at a time looks for its hold, and makes one

	mu    sync.Mutex
	turns state.Queues[string, *waiting] // guarded by mu
}

func (r *sessions) Close() error { return r.store.Close() }

// A cookieSecret is a random secret, kept over reloads.
type cookieSecret [sha256.Size]byte

func newSession(init *node.Init, o stream.Options) (node.Node, error) {
	c, at := init.Config, init.Config.Group("store")
	n := &sessionNode{
		pool: init.Pool, memory: init.Memory, log: init.Log, clock: init.Clock, init: c.Value("init"), ttl: c.Duration("ttl"), patience: c.Duration("patience"),
		max: int(c.Int("max")), queue: int(c.Int("queue")), limits: state.Limits{Count: int(at.Int("capacity")), Bytes: at.Int("bytes")},
	}
	if !n.init.IsNull() && n.init.Kind() != value.KindMap {
		return nil, c.Errorf("init", diag.CodeBadValue, "is a %s", n.init.Kind()).WithHint("want a map of the values of a new session, such as {visits: 0}")
	}
	var err error
	if n.place, err = keep.New(init, at, "sessions"); err != nil {
		return nil, err
	}
	n.shared = n.place.Shared
	if !c.Has("key") {
		n.cookies, err = newCookies(c.Group("cookie"), n.ttl, !n.place.InMemory())
		return n, err
	}
	if c.Has("cookie") {
		return nil, c.Errorf("cookie", diag.CodeBadValue, "is there as well as key").WithHint("leave one of them out: with a key, no cookie is used")
	}
	n.key, err = o.Expr(c, "key", lang.Options{Warn: init.Warn})
	return n, err
}

// Open finds the sessions of the generation before, or connects to where they are.
func (n *sessionNode) Open(ctx context.Context) error {
	r, release, err := node.Acquire(n.pool, n.shared, func() (*sessions, error) {
		s, err := n.place.Open(ctx, n.memory.Account("session"))
		if err != nil {
			return nil, err
		}
		r := &sessions{store: s}
		if n.place.InMemory() {
			r.id = rand.Text()
		}
		return r, nil
	})
	if err != nil {
		return err
	}
	n.sessions, n.release = r, append(n.release, release)
	if m, ok := r.store.(*keep.Memory); ok {
		m.Limit(n.limits)
	}
	if n.cookies == nil || n.cookies.secrets != nil {
		return nil
	}
	secret, release, err := node.Acquire(n.pool, fmt.Sprintf("secret of %s %s", n.shared, n.cookies.made.Name), func() (*cookieSecret, error) {
		s := new(cookieSecret)
		rand.Read(s[:]) // never fails
		return s, nil
	})
	if err != nil {
		return errors.Join(err, n.Close())
	}
	n.release = append(n.release, release)
	n.cookies.secrets = [][]byte{secret[:]}
	return nil
}

// Close lets the sessions go, unless another generation goes on with them.
func (n *sessionNode) Close() (err error) {
	for _, release := range n.release {
		err = errors.Join(err, release())
	}
	n.release = nil
	return err
}

// Ready implements [node.Readier].
func (n *sessionNode) Ready() error { return keep.Ready(n.sessions.store) }

// Concurrency lets the packets of one process wait for different sessions.
func (n *sessionNode) Concurrency() int { return 1024 }

// Receive sends a payload on when its process has its session.
func (n *sessionNode) Receive(p node.Process, pkt node.Packet) node.Result {
	key, err := n.keyOf(p, pkt.Payload)
	if err != nil {
		return node.Fail(node.Unusable(codeKey, fmt.Errorf("key of the session: %w", err)))
	}
	h, found := n.hold(p, key)
	switch _, durable := node.RunOf(p); {
	case durable:
		return h.durable(p, pkt.Payload, found)
	case found:
		return h.join(p, pkt.Payload)
	}
	if first, err := n.sessions.take(h, 0); err == nil && first {
		return h.begin(p.Context(), p, pkt.Payload, nil)
	}
	return h.wait(p, pkt.Payload)
}

// hold returns the hold of a session that a process, or one that it ends with, has already.
// Otherwise it makes one, until the last of these processes has ended.
func (n *sessionNode) hold(p node.Process, key string) (h *hold, found bool) {
	root := p.Root()
	n.sessions.entry.Lock()
	defer n.sessions.entry.Unlock()
	outer, _ := holdKey.Load(root)
	if h := outer.find(n.sessions, key); h != nil {
		return h, true
	}
	h = &hold{node: n, outer: outer}
	if r, durable := node.RunOf(p); durable {
		h.tenure = &tenure{run: r.ID(), replays: r.Replays(), store: n.sessions.id, turn: make(chan struct{})}
	}
	h.place.Key = key
	holdKey.Store(root, h)
	return h, false
}

// Measure implements [node.Measured].
func (n *sessionNode) Measure(report func(node.Metric)) {
	held, waiting := n.sessions.count()
	report(node.Metric{Name: "session_held", Help: "Sessions that processes have.", Value: float64(held)})
	report(node.Metric{Name: "session_waiting", Help: "Processes that wait for a session that another one has.", Value: float64(waiting)})
	m, ok := n.sessions.store.(*keep.Memory)
	if !ok {
		return
	}
	sessions, bytes, evicted := m.Count()
	report(node.Metric{Name: "session_entries", Help: "Sessions in memory, also those that have expired and were not removed yet.", Value: float64(sessions)})
	report(node.Metric{Name: "session_bytes", Help: "Memory that they take, approximately.", Value: float64(bytes)})
	report(node.Metric{Name: "session_evictions_total", Help: "Sessions that were dropped to make room.", Type: node.MetricCounter, Value: float64(evicted)})
}

// A keyError is a failure to find out which session a payload belongs to.
type keyError struct{ err error }

func (e *keyError) Error() string { return e.err.Error() }

// keyOf returns the key of the session of a payload.
func (n *sessionNode) keyOf(p node.Process, payload value.Value) (string, error) {
	if n.cookies != nil {
		return n.cookies.session(p.Context(), payload, n.clock.Now())
	}
	v, err := n.key.Eval(p.Context(), payload)
	if err != nil {
		return "", err
	}
	return field.KeyText(v)
}
