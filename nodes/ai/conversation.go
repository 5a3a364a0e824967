package ai

import (
	"context"
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/value"
)

// list is the list of the session that has the conversation.
const list = "messages"

// ask makes messages of a payload.
func (n *llm) ask(ctx context.Context, payload value.Value) ([]value.Value, error) {
	if n.messages == nil {
		prompt := payload
		if n.prompt != nil {
			var err error
			if prompt, err = n.prompt.Eval(ctx, payload); err != nil {
				return nil, fmt.Errorf("prompt: %w", err)
			}
		}
		if k := prompt.Kind(); k != value.KindString && (k != value.KindList || prompt.Len() == 0) {
			return nil, fmt.Errorf("prompt: want text, got %s", k)
		}
		return []value.Value{object("role", "user", "content", prompt)}, nil
	}
	v, err := n.messages.Eval(ctx, payload)
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	if v.Kind() != value.KindList || v.Len() == 0 {
		return nil, fmt.Errorf("messages: want a list of messages, got %s", v.Kind())
	}
	var all []value.Value
	for i, m := range v.Elems() {
		if text(m, "role") == "" {
			return nil, fmt.Errorf("messages[%d]: want a map with role and content, got %s", i, m.Kind())
		}
		all = append(all, m)
	}
	return all, nil
}

// share is which part of the budget of a run the history may take: each turn sends it again.
const share = 4

// earlier returns the last messages of the session, as many as the budget of a run leaves
// room for. They begin with one of a person, as some models need it.
func (r *run) earlier() []value.Value {
	if r.session == nil {
		return nil
	}
	var all []value.Value
	for _, m := range r.session.Get(list).Elems() {
		all = append(all, m)
	}
	all = all[max(0, len(all)-r.n.history):]
	if b := r.n.budget.run; b > 0 {
		first, size := len(all), 0
		for first > 0 && tokens(size+sizeOf(all[first-1])) <= b/share {
			first--
			size += sizeOf(all[first])
		}
		all = all[first:]
	}
	return fromPerson(all)
}

// forget leaves the older half of the history out, for a model that the conversation is
// too long for. It reports whether there was any.
func (r *run) forget() bool {
	if r.past == 0 {
		return false
	}
	end := r.first + r.past
	kept := fromPerson(r.messages[r.first+(r.past+1)/2 : end])
	r.messages = slices.Concat(r.messages[:r.first], kept, r.messages[end:])
	r.past = len(kept)
	return true
}

// fromPerson returns the messages from the first one of a person on.
func fromPerson(all []value.Value) []value.Value {
	for len(all) > 0 && text(all[0], "role") != "user" {
		all = all[1:]
	}
	return all
}
