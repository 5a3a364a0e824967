package core

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
)

// A limitStore is what the generations of a node have where programs share buckets. The store counts. A packet whose
// number is limited has a lease there, which is released before the answer goes on: who has the answer may send the
// next packet to any program.
type limitStore struct {
	keep.Limiter
	log   *slog.Logger
	quota keep.Quota

	mu                                sync.Mutex
	held                              map[string]string                // the key of each lease
	holders                           map[node.Process]map[*lease]bool // each has one deferred function
	passed, overRate, overConcurrency uint64

	stop    context.CancelFunc
	renewal sync.WaitGroup
}

// A lease is of a packet that is on its way, or may get one.
type lease struct {
	key, id string
	held    bool
}

// storeTimeout bounds what is told to a store at the end of a process.
const storeTimeout = 5 * time.Second

func openLimitStore(ctx context.Context, place *keep.Place, q quota, log *slog.Logger) (*limitStore, error) {
	limiter, err := place.OpenLimiter(ctx)
	if err != nil {
		return nil, err
	}
	s := &limitStore{
		Limiter: limiter, log: log, quota: keep.Quota{Rate: float64(q.rate), Burst: q.burst, Concurrency: q.concurrency},
		held: make(map[string]string), holders: make(map[node.Process]map[*lease]bool),
	}
	renewing, stop := context.WithCancel(context.Background())
	if s.stop = stop; q.concurrency > 0 {
		s.renewal.Go(func() { s.renew(renewing) })
	}
	return s, nil
}

func (s *limitStore) Close() error {
	s.stop()
	s.renewal.Wait()
	return s.Limiter.Close()
}

// renew has leases last for as long as their packets are on their way.
func (s *limitStore) renew(ctx context.Context) {
	tick := time.NewTicker(keep.LeaseTime / 3) // a store has no clock of an engine
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		held := maps.Clone(s.held)
		s.mu.Unlock()
		if err := s.Renew(ctx, held); err != nil && ctx.Err() == nil {
			s.log.Warn("packets on their way may not count any more", "packets", len(held), "error", err)
		}
	}
}

// passShared lets a packet pass if the store does.
func (n *limit) passShared(p node.Process, k state.Key, payload value.Value) node.Result {
	s, l := n.store, &lease{key: n.idOf(k), id: rand.Text()}
	if s.quota.Concurrency > 0 {
		s.enter(p, l)
	}
	return node.Step(func(ctx context.Context) (value.Value, error) { return value.Null(), s.take(ctx, l, n.outages) },
		func(_ node.Process, resp node.Response) node.Result {
			if resp.IsError() {
				return node.Fail(resp.Payload.AsError())
			}
			if !l.held { // nothing is, or a run does again what it has done
				return node.Send(0, payload)
			}
			return node.SendThen(0, payload, func(p node.Process, resp node.Response) node.Result {
				return node.Block(func(ctx context.Context) node.Result {
					s.leave(ctx, p, l)
					return node.Respond(resp)
				})
			})
		})
}

// idOf is a key as the store has it: a node with other limits has other buckets.
func (n *limit) idOf(k state.Key) string {
	id := state.KeyOf(value.List(value.String(n.shared), value.String(string(k[:]))))
	return hex.EncodeToString(id[:16])
}

// take asks the store. An error is a refusal, or what is wrong with the store.
func (s *limitStore) take(ctx context.Context, l *lease, outages *keep.Outages) error {
	wait, err := s.Take(ctx, l.key, l.id, s.quota)
	passes := outages.Pass(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case passes:
	case err != nil:
		return err
	case wait == keep.Crowded:
		s.overConcurrency++
		return &node.Error{Err: errConcurrency, Status: http.StatusTooManyRequests, Code: "concurrency", RetryAfter: time.Second}
	case wait > 0:
		s.overRate++
		return &node.Error{Err: errRate, Status: http.StatusTooManyRequests, Code: "rate", RetryAfter: wait}
	case s.quota.Concurrency > 0:
		l.held, s.held[l.id] = true, l.key
	}
	s.passed++
	return nil
}

// enter notes that a process may get a lease, which must not be held when it has ended.
func (s *limitStore) enter(p node.Process, l *lease) {
	s.mu.Lock()
	leases := s.holders[p]
	first := leases == nil
	if first {
		leases = make(map[*lease]bool)
		s.holders[p] = leases
	}
	leases[l] = true
	s.mu.Unlock()
	if first {
		p.Defer(func() { s.ended(p) })
	}
}

// leave releases the lease of a packet that is answered.
func (s *limitStore) leave(ctx context.Context, p node.Process, l *lease) {
	s.mu.Lock()
	delete(s.holders[p], l)
	delete(s.held, l.id)
	s.mu.Unlock()
	s.release(context.WithoutCancel(ctx), l)
}

// ended releases the leases of packets whose process has ended without an answer to them.
func (s *limitStore) ended(p node.Process) {
	s.mu.Lock()
	leases := s.holders[p]
	delete(s.holders, p)
	for l := range leases {
		delete(s.held, l.id)
	}
	s.mu.Unlock()
	for l := range leases {
		if l.held {
			s.release(context.Background(), l)
		}
	}
}

// release tells the store. If that cannot be reached, the lease expires by itself.
func (s *limitStore) release(ctx context.Context, l *lease) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.Release(ctx, l.key, l.id); err != nil {
		s.log.Warn("a packet that is answered counts for some seconds more", "error", err)
	}
}
