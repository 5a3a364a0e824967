package loader

import (
	"crypto/sha256"
	"sync"
)

// verdictBytes is how much memory the verdicts of remembered batches may take.
// Above it the oldest keys are forgotten, as they are above Options.DedupeKeys.
const verdictBytes = 64 << 20

// A digest stands for a key: 16 bytes of its SHA-256. So memory does not depend on
// what clients send, and no client can find two keys with the same digest.
type digest [16]byte

func digestOf(key string) digest {
	sum := sha256.Sum256([]byte(key))
	return digest(sum[:16])
}

// An outcome is the answer to a batch.
type outcome struct {
	accepted uint32
	rejected string // verdicts as JSON, without the brackets
}

// A window remembers the outcomes of the newest keys. Its memory is bounded: less
// than 100 bytes for each key, and verdictBytes. The committer adds keys; any
// goroutine may call find.
type window struct {
	maxKeys, maxBytes int

	mu struct {
		sync.Mutex
		table    map[digest]uint64 // numbers of keys in the queue
		keys     queue[rememberedKey]
		verdicts map[uint64]string // by number; few keys have any
		bytes    int               // of verdicts
	}
}

type rememberedKey struct {
	key      digest
	accepted uint32
}

func newWindow(keys int) *window {
	w := &window{maxKeys: keys, maxBytes: verdictBytes}
	w.mu.table = make(map[digest]uint64)
	w.mu.verdicts = make(map[uint64]string)
	return w
}

func (w *window) find(key digest) (outcome, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.mu.table[key]
	if !ok {
		return outcome{}, false
	}
	return outcome{w.mu.keys.at(n).accepted, w.mu.verdicts[n]}, true
}

// len returns how many keys are remembered.
func (w *window) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.table)
}

// add remembers a key, unless it is there already. It returns how many keys, the
// oldest ones, were forgotten to make room.
func (w *window) add(key digest, o outcome) (added bool, forgotten int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.mu.table[key]; ok {
		return false, 0
	}
	for len(w.mu.table) > 0 && (len(w.mu.table) >= w.maxKeys || w.mu.bytes+len(o.rejected) > w.maxBytes) {
		w.forgetLocked()
		forgotten++
	}
	n := w.mu.keys.push(rememberedKey{key, o.accepted})
	w.mu.table[key] = n
	if o.rejected != "" {
		w.mu.verdicts[n] = o.rejected
		w.mu.bytes += len(o.rejected)
	}
	return true, forgotten
}

// forgetLocked forgets the oldest key.
func (w *window) forgetLocked() {
	n := w.mu.keys.begin
	delete(w.mu.table, w.mu.keys.at(n).key)
	w.mu.bytes -= len(w.mu.verdicts[n])
	delete(w.mu.verdicts, n)
	w.mu.keys.pop()
}
