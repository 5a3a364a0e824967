package ai

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/value"
)

// defaultAnswer is how many tokens an answer is thought to have, if max_tokens is unset.
const defaultAnswer = 4096

// reserve takes what a turn may use from the budgets, and returns how many tokens its answer
// may have, 0 for no limit.
func (r *run) reserve(sent int) (most int, err error) {
	n := r.n
	want := int64(n.most)
	if b := n.budget.run; b > 0 {
		left := b - r.used.total - tokens(sent)
		if left <= 0 {
			return 0, overBudget(fmt.Errorf("%w: %d tokens", errRunBudget, b), 0)
		}
		if want == 0 || left < want {
			want = left
		}
	}
	if n.ledger == nil {
		return int(want), nil
	}
	limited := want > 0
	if !limited {
		want = defaultAnswer
	}
	need := want + tokens(sent)
	granted, wait := n.ledger.hold(r.account, need, n.clock.Now())
	if granted <= tokens(sent) {
		n.ledger.settle(r.account, granted, 0)
		return 0, overBudget(fmt.Errorf("%w: %d in %v", errKeyBudget, n.budget.key, n.budget.window), wait)
	}
	if limited || granted < need {
		most = int(granted - tokens(sent))
	}
	r.held = granted
	return most, nil
}

// settle ends the reservation of a turn, and takes what it has used from the account.
func (r *run) settle() {
	if r.held > 0 {
		r.n.ledger.settle(r.account, r.held, r.owed)
	}
	r.held, r.owed = 0, 0
}

func (r *run) body(most int) ([]byte, error) {
	n := r.n
	var b value.MapBuilder
	b.Set("model", value.String(n.model))
	b.Set(list, value.List(r.messages...))
	for name, v := range n.extra.Fields() {
		b.Set(name, v)
	}
	if n.streams {
		b.Set("stream", value.Bool(true))
		b.Set("stream_options", object("include_usage", true))
	}
	if most > 0 {
		b.Set(n.mostName, value.Int(int64(most)))
	}
	if !r.tools.list.IsNull() {
		b.Set("tools", r.tools.list)
	}
	if !n.format.IsNull() {
		b.Set("response_format", n.format)
	}
	return b.Build().AppendJSON(nil)
}

// sizeOf returns how many bytes of a message count.
func sizeOf(m value.Value) int {
	c := get(m, "content")
	if s, ok := c.AsString(); ok {
		return len(s) + len(arguments(m))
	}
	return c.Size() + len(arguments(m))
}
