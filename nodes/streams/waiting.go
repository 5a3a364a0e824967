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
	forget   func() bool // ends the watch
}

// watch answers the packet with an error when ctx ends, after it has called leave.
func (w *waiting) watch(ctx context.Context, leave func()) {
	forget := context.AfterFunc(ctx, func() {
		leave()
		w.answer(node.Answer(value.Error(context.Cause(ctx))))
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answered {
		forget()
	}
	w.forget = forget
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
	answered, forget := w.answered, w.forget
	w.answered = true
	w.mu.Unlock()
	if !answered && forget != nil {
		forget()
	}
	return !answered
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
