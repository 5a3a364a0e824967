package ai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A budget is how many tokens may be used. 0 means no limit.
type budget struct {
	run, key int64
	window   time.Duration
	by       lang.Program // nil: the conversation
}

func (b *budget) read(c schema.Config) {
	*b = budget{run: c.Int("run"), key: c.Int("key"), window: c.Duration("window")}
}

// keyOf returns the key that a process uses the budget of.
func (b *budget) keyOf(ctx context.Context, payload value.Value) (key account, err error) {
	if b.by == nil {
		conversation, _ := node.ConversationOf(ctx)
		return state.KeyOf(value.String(conversation)), nil
	}
	v, err := b.by.Eval(ctx, payload)
	if err != nil {
		return key, fmt.Errorf("budget.by: %w", err)
	}
	return state.KeyOf(v), nil
}

// An account stands for a key.
type account = state.Key

// maxAccounts bounds the memory of a ledger: 65,536 keys take 8 MB. When there are as many,
// a key that has used least of its budget lately is forgotten.
const maxAccounts = 1 << 16

// A ledger is what each key has used in its window. Any goroutine may call its methods.
type ledger struct {
	most   int64
	window time.Duration
	mu     struct {
		sync.Mutex
		spent map[account]*spending
	}
}

type spending struct {
	used  int64
	held  int64 // by requests under way
	until time.Time
}

func newLedger(most int64, window time.Duration) *ledger {
	l := &ledger{most: most, window: window}
	l.mu.spent = make(map[account]*spending)
	return l
}

// hold reserves up to so many tokens for a request. granted is fewer if there are not as
// many left, and 0 if there are none. wait is how long until the next window.
func (l *ledger) hold(k account, tokens int64, now time.Time) (granted int64, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.mu.spent[k]
	if !ok {
		if len(l.mu.spent) >= maxAccounts {
			if l.forgetLocked(now); len(l.mu.spent) >= maxAccounts {
				return 0, l.window
			}
		}
		s = &spending{until: now.Add(l.window)}
		l.mu.spent[k] = s
	}
	if !now.Before(s.until) {
		s.used, s.until = 0, now.Add(l.window)
	}
	granted = max(0, min(tokens, l.most-s.used-s.held))
	s.held += granted
	return granted, s.until.Sub(now)
}

// settle replaces what was reserved by what was used.
func (l *ledger) settle(k account, granted, used int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.mu.spent[k]; s != nil {
		s.held = max(0, s.held-granted)
		s.used += used
	}
}

// forgetLocked makes room: keys whose window is over, and if there are none, one in 16 of
// those without requests under way, the least used of a few first.
func (l *ledger) forgetLocked(now time.Time) {
	for k, s := range l.mu.spent {
		if s.held == 0 && !now.Before(s.until) {
			delete(l.mu.spent, k)
		}
	}
	for share := int64(16); len(l.mu.spent) >= maxAccounts && share > 0; share /= 2 {
		for k, s := range l.mu.spent { // the order of maps is random
			if s.held == 0 && s.used <= l.most/share && len(l.mu.spent) > maxAccounts-maxAccounts/16 {
				delete(l.mu.spent, k)
			}
		}
	}
}

var (
	errRunBudget = errors.New("the budget of one run is used up")
	errKeyBudget = errors.New("the budget of tokens is used up")
)

// overBudget is the failure of a request that there are no tokens for.
func overBudget(err error, wait time.Duration) error {
	return &node.Error{Err: err, Code: "budget", Status: http.StatusTooManyRequests, Public: true, RetryAfter: wait}
}
