package core

import (
	"context"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

// A cacheStore is what the generations of a node have where programs share answers. Packets of one program that have
// equal keys wait for one of them, which asks the store, and is sent if that has no answer. What it is answered is
// there before the answer goes on.
type cacheStore struct {
	keep.Blobs
	*state.Claims
	keys state.Keys
	log  *slog.Logger

	mu           sync.Mutex
	kept         map[node.Process][]string // keys of answers that are removed if the process fails
	hits, misses uint64
}

// mostKept is how many answers of one process are kept: they are known until it has ended.
const mostKept = 1 << 16

func openCacheStore(ctx context.Context, place *keep.Place, clock node.Clock, log *slog.Logger) (*cacheStore, error) {
	blobs, err := place.OpenBlobs(ctx)
	if err != nil {
		return nil, err
	}
	s := &cacheStore{Blobs: blobs, log: log, kept: make(map[node.Process][]string)}
	s.Claims = state.NewClaims(clock, func([]state.Key, bool) {}) // what is undone is removed by s.end
	s.keys = state.Keys{Claims: s.Claims, Patience: patience}
	return s, nil
}

// sharedRules are of a node: generations may differ in what an outage means.
func (n *cache) sharedRules() state.Rules {
	s := n.store
	return state.Rules{
		Known:   func(state.Key, value.Value, time.Time) (r node.Result, ok bool) { return r, false },
		Settles: keeps,
		Settle:  func(state.Key, node.Response, time.Time) {},
		Share: func(_ value.Value, resp node.Response) node.Result {
			s.count(&s.hits)
			return node.Respond(resp)
		},
		First: n.first,
		Late: func(payload value.Value) node.Result {
			s.count(&s.misses)
			return node.Send(0, payload)
		},
	}
}

func (s *cacheStore) count(n *uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// first asks the store, for a packet and for those that wait for it.
func (n *cache) first(p node.Process, k state.Key, payload value.Value, settle func(node.Response)) node.Result {
	s, id := n.store, n.idOf(k)
	var found bool
	return node.Step(func(ctx context.Context) (v value.Value, err error) {
		v, found, err = s.find(ctx, id)
		if n.outages.Pass(err) {
			err = nil
		}
		return v, err
	}, func(_ node.Process, resp node.Response) node.Result {
		switch {
		case resp.IsError():
			settle(resp)
			return node.Fail(resp.Payload.AsError())
		case found:
			s.count(&s.hits)
			settle(resp)
			return node.Answer(resp.Payload)
		}
		s.count(&s.misses)
		return node.SendThen(0, payload, func(_ node.Process, resp node.Response) node.Result {
			if !keeps(resp) {
				settle(resp)
				return node.Respond(resp)
			}
			return node.Step(func(ctx context.Context) (value.Value, error) {
				n.keep(ctx, p.Root(), id, resp.Payload)
				return value.Null(), nil
			}, func(node.Process, node.Response) node.Result {
				settle(resp)
				return node.Respond(resp)
			})
		})
	})
}

// idOf is a key as the store has it.
func (n *cache) idOf(k state.Key) string {
	id := state.KeyOf(value.List(value.String(n.shared), value.String(string(k[:]))))
	return hex.EncodeToString(id[:])
}

func (s *cacheStore) find(ctx context.Context, id string) (v value.Value, found bool, err error) {
	blob, ok, err := s.Get(ctx, id)
	if err != nil || !ok {
		return v, false, err
	}
	if v, err = decodeAnswer(blob); err != nil {
		s.log.Warn("an answer that is kept cannot be read, and is made again", "error", err) // by another version, or damaged
		return value.Null(), false, nil
	}
	return v, true, nil
}

// keep keeps an answer. The packet is answered in any case.
func (n *cache) keep(ctx context.Context, root node.Process, id string, answer value.Value) {
	blob, ok := encodeAnswer(answer)
	s := n.store
	if !ok || int64(len(blob)) > n.limits.room.Bytes || !s.enlist(root, id) {
		return
	}
	if err := s.Put(ctx, id, blob, n.limits.ttl); err != nil && !n.outages.Pass(err) {
		s.log.Warn("an answer is not kept", "error", err)
	}
}

// enlist notes that an answer is of a process, which may fail.
func (s *cacheStore) enlist(root node.Process, id string) bool {
	s.mu.Lock()
	kept, there := s.kept[root]
	full := len(kept) >= mostKept
	if !full {
		s.kept[root] = append(kept, id)
	}
	s.mu.Unlock()
	if !there {
		root.Enlist(node.PhaseMark, func(ctx context.Context, failure error) (bool, error) { return false, s.end(ctx, root, failure) })
	}
	return !full
}

// end removes the answers of a process that has failed: what they say may have been undone.
func (s *cacheStore) end(ctx context.Context, root node.Process, failure error) error {
	s.mu.Lock()
	kept := s.kept[root]
	delete(s.kept, root)
	s.mu.Unlock()
	if failure == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := s.Remove(ctx, kept); err != nil {
		s.log.Warn("answers of a process that has failed stay until they expire", "answers", len(kept), "error", err)
	}
	return nil
}

// answerForm precedes each answer, so that another form can follow.
const answerForm = 1

// encodeAnswer writes an answer without a loss. One that holds an error is not kept.
func encodeAnswer(v value.Value) (blob []byte, ok bool) {
	ok = true
	w := wire.Writer{Error: func(*wire.Writer, error) { ok = false }, Mark: content.Mark}
	w.Byte(answerForm)
	w.Value(v)
	return w.Buf, ok
}

func decodeAnswer(blob []byte) (value.Value, error) {
	r := wire.Reader{Buf: blob, Error: func(*wire.Reader) error { return wire.ErrDamaged }, Marked: content.Marked}
	if r.Byte() != answerForm {
		return value.Value{}, wire.ErrDamaged
	}
	return r.Whole()
}
