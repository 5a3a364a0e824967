package dialogue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
)

// A prompt is a packet that has asked, or does so. It belongs to what goes on with the packet, which is one
// goroutine at a time.
type prompt struct {
	node    *asker
	p       node.Process
	key     string
	input   value.Value
	at      int32       // the question
	attempt int16       // of the question, from 0
	durable bool        // the process is
	answers value.Value // of a form, to the questions before
	choices []choice    // of the question

	stop func() bool // of one that waits in memory, as is mu: see [node.Waits]
	mu   struct {
		sync.Mutex
		came    bool
		message value.Value
		err     error
		done    func(node.Result) // nil until the packet is parked
	}
}

// An awaiting is how a prompt waits for the next message. It has begun to.
type awaiting interface {
	// say passes on what asks, and then awaits. It is called once at most.
	say(parts node.Parts, message value.Value) node.Result

	// await goes on with what has come.
	await() node.Result
}

// wait begins to wait: in the journal or in memory, as the process is.
func (a *prompt) wait() awaiting {
	if a.durable {
		run, _ := node.RunOf(a.p)
		return &recorded{a, run.Wait(node.Wait{Event: node.EventReply, Key: a.key, Timeout: a.node.timeout})}
	}
	w := remembered{a}
	a.mu.came, a.mu.message, a.mu.err, a.mu.done = false, value.Value{}, nil, nil
	a.stop = a.node.waits.Wait(a.p.Context(), a.key, a.node.clock.Now().Add(a.node.timeout), w.come)
	return w
}

// question returns the one that is asked.
func (a *prompt) question() *question { return &a.node.questions[a.at] }

// seen returns what the expressions of a question see: the payload, and in a form the answers
// so far.
func (a *prompt) seen() value.Value {
	if a.node.form && a.input.Kind() == value.KindMap {
		return a.input.With("answers", a.answers)
	}
	return a.input
}

// ask says the text of the question, or one in its place, and waits for the next message. It
// waits before it asks: an answer may be fast.
func (a *prompt) ask(instead string) node.Result {
	q, ctx := a.question(), a.p.Context()
	message, err := a.message(ctx, instead)
	if err != nil {
		return node.Fail(err)
	}
	parts, ok := node.PartsOf(ctx)
	if !ok && q.asks {
		return node.Fail(errNoParts)
	}
	w := a.wait()
	if !ok || !q.asks && instead == "" {
		return w.await()
	}
	return w.say(parts, message)
}

// message returns what asks the question: its text, or another, and its choices.
func (a *prompt) message(ctx context.Context, instead string) (v value.Value, err error) {
	q, seen := a.question(), a.seen()
	if q.pick && a.choices == nil {
		list, _, err := q.choices.Render(ctx, seen)
		if err == nil {
			a.choices, err = choicesOf(list)
		}
		if err != nil {
			return v, fmt.Errorf("choices: %w", err)
		}
	}
	text := instead
	if text == "" && q.asks {
		if text, err = q.text.Text(ctx, seen); err != nil {
			return v, fmt.Errorf("text: %w", err)
		}
	}
	return part(text, a.choices), nil
}

// pause notifies the receiver of the parts that the process waits for a message.
func (a *prompt) pause() {
	ctx := a.p.Context()
	if conversation, ok := node.ConversationOf(ctx); !ok || conversation != a.key {
		return
	}
	if parts, ok := node.PartsOf(ctx); ok {
		if p, ok := parts.(node.PauseParts); ok {
			p.Pause()
		}
	}
}

// next returns what follows from a message, or from why there is none.
func (a *prompt) next(message value.Value, err error) node.Result {
	n, q := a.node, a.question()
	switch {
	case errors.Is(err, node.ErrWaitTimeout):
		return a.tooLate()
	case errors.Is(err, node.ErrTooManyWaits), errors.Is(err, node.ErrWaitsEnded):
		return node.Fail(&node.Error{Err: err, Code: codeBusy, Status: http.StatusServiceUnavailable})
	case err != nil:
		return node.Fail(err)
	}
	size := int64(message.Size())
	if !n.held.Take(size) {
		return node.Fail(keep.ErrNoMemory)
	}
	a.p.Defer(func() { n.held.Free(size) })
	answer, problem := q.fit(replyOf(message), a.choices)
	if problem != "" {
		return a.again(answer, problem)
	}
	a.choices, a.attempt = nil, 0
	if !n.form {
		return node.Send(portOut, asked.Map(a.input, answer, message))
	}
	a.answers = a.answers.With(q.name, answer)
	if a.at++; int(a.at) < len(n.questions) {
		return a.ask("")
	}
	return node.Send(portOut, filled.Map(a.input, a.answers))
}

// What ask and form send.
var (
	asked  = value.NewShape("input", "answer", "message")
	filled = value.NewShape("input", "answers")
)

func (a *prompt) tooLate() node.Result {
	n := a.node
	if !n.late {
		return node.Fail(&node.Error{Err: fmt.Errorf("no answer has come for %s", n.timeout), Code: "timeout", Status: http.StatusRequestTimeout})
	}
	if n.form {
		return node.Send(portTimeout, filled.Map(a.input, a.answers))
	}
	return node.Send(portTimeout, a.input)
}

// again asks once more, after an answer that does not fit.
func (a *prompt) again(answer value.Value, problem string) node.Result {
	n, q, ctx := a.node, a.question(), a.p.Context()
	if a.attempt++; int(a.attempt) >= n.attempts {
		return node.Fail(&node.Error{
			Err:  fmt.Errorf("no answer of %d fits: %s", a.attempt, problem),
			Code: "attempts", Status: http.StatusUnprocessableEntity, Data: answer,
		})
	}
	if q.says {
		seen := a.seen()
		if seen.Kind() != value.KindMap {
			seen = value.Map(value.Field{Name: "input", Value: seen})
		}
		text, err := q.again.Text(ctx, seen.With("error", value.String(problem)).With("answer", answer))
		if err != nil {
			return node.Fail(fmt.Errorf("again: %w", err))
		}
		return a.ask(text)
	}
	if !q.asks {
		return a.ask(problem)
	}
	text, err := q.text.Text(ctx, a.seen())
	if err != nil {
		return node.Fail(fmt.Errorf("text: %w", err))
	}
	return a.ask(problem + "\n" + text)
}
