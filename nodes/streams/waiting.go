package streams

import (
	"context"
	"crypto/sha256"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A waiting packet is parked by [node.Await] until the first answer, or the end of its
// process.
type waiting struct {
	payload value.Value
	done    func(node.Result)

	mu       sync.Mutex
	answered bool
	forget   func() bool // ends the watch; it must be called before done
}

// watch answers the packet with an error when ctx ends, after it has called leave. It is
// called before another goroutine can answer: ctx must not be used after that.
func (w *waiting) watch(ctx context.Context, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget = context.AfterFunc(ctx, func() {
		if !w.claim() {
			return
		}
		err := context.Cause(ctx)
		leave()
		w.done(node.Answer(value.Error(err)))
	})
}

// answer answers the packet; not ok if it is answered already.
func (w *waiting) answer(r node.Result) (ok bool) {
	if !w.claim() {
		return false
	}
	w.done(r)
	return true
}

// claim lets the caller alone answer the packet, which it must do; not ok if another
// has.
func (w *waiting) claim() (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answered {
		return false
	}
	w.answered = true
	w.forget()
	return true
}

// open reports whether the packet is not answered.
func (w *waiting) open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.answered
}

// maxKey is the longest key that is kept as it is.
const maxKey = 64

// keyText returns a text that is the same for equal keys: a string as it is, anything
// else as JSON; the hash of a long one.
func keyText(v value.Value) string {
	text := "s"
	if s, ok := v.AsString(); ok {
		text += s
	} else {
		text = v.String()
	}
	if len(text) > maxKey {
		sum := sha256.Sum256([]byte(text))
		text = "h" + string(sum[:])
	}
	return text
}
