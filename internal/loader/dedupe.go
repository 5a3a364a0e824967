package loader

import (
	"crypto/sha256"
	"sync"
)

// verdictBytes is how much memory the verdicts of remembered batches may take.
// Past it the oldest keys are forgotten, as they are past Options.DedupeKeys.
const verdictBytes = 64 << 20

// A digest stands for a key: 16 bytes of its SHA-256, so that memory does not
// depend on what clients send, and nobody finds two keys with the same one.
type digest [16]byte

func digestOf(key string) digest {
	sum := sha256.Sum256([]byte(key))
	return digest(sum[:16])
}

// An outcome is what was answered to a batch.
type outcome struct {
	accepted uint32
	rejected string // verdicts as JSON, without the brackets
}

// A window remembers what was answered to the newest keys. Its memory is bounded:
// about 100 bytes for each key, and verdictBytes. The committer adds, any
// goroutine may look.
type window struct {
	keys, bytes int // most that are kept

	mu struct {
		sync.Mutex
		table       map[digest]uint64 // numbers of keys, in the order they came
		first, next uint64            // the number of the oldest key, and of the next one
		blocks      [][]remembered    // keys by number; the first block has the oldest
		verdicts    map[uint64]string // by number; few keys have any
		bytes       int               // of verdicts
	}
}

// remembered is one key of the window.
type remembered struct {
	key      digest
	accepted uint32
	journal  uint64 // that has its record
}

// blockKeys is how many keys a block has: memory is taken and let go of in these
// steps, without copying.
const blockKeys = 4096

func newWindow(keys int) *window {
	w := &window{keys: keys, bytes: verdictBytes}
	w.mu.table = make(map[digest]uint64)
	w.mu.verdicts = make(map[uint64]string)
	return w
}

// atLocked returns the key of a number.
func (w *window) atLocked(n uint64) *remembered {
	return &w.mu.blocks[n/blockKeys-w.mu.first/blockKeys][n%blockKeys]
}

// find returns what was answered to a key.
func (w *window) find(key digest) (outcome, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.mu.table[key]
	if !ok {
		return outcome{}, false
	}
	return outcome{w.atLocked(n).accepted, w.mu.verdicts[n]}, true
}

// len returns how many keys are remembered.
func (w *window) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.table)
}

// add remembers a key, unless it is there. It appends to gone the journal of each
// key that is forgotten for it.
func (w *window) add(key digest, o outcome, journal uint64, gone []uint64) (added bool, _ []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.mu.table[key]; ok {
		return false, gone
	}
	for len(w.mu.table) > 0 && (len(w.mu.table) >= w.keys || w.mu.bytes+len(o.rejected) > w.bytes) {
		gone = append(gone, w.forgetLocked())
	}
	n := w.mu.next
	w.mu.next++
	if len(w.mu.table) == 0 {
		w.mu.first, w.mu.blocks = n, w.mu.blocks[:0]
	}
	if n/blockKeys-w.mu.first/blockKeys == uint64(len(w.mu.blocks)) {
		w.mu.blocks = append(w.mu.blocks, make([]remembered, blockKeys))
	}
	*w.atLocked(n) = remembered{key, o.accepted, journal}
	w.mu.table[key] = n
	if o.rejected != "" {
		w.mu.verdicts[n] = o.rejected
		w.mu.bytes += len(o.rejected)
	}
	return true, gone
}

// forgetLocked forgets the oldest key.
func (w *window) forgetLocked() (journal uint64) {
	n := w.mu.first
	r := *w.atLocked(n)
	delete(w.mu.table, r.key)
	w.mu.bytes -= len(w.mu.verdicts[n])
	delete(w.mu.verdicts, n)
	w.mu.first++
	if w.mu.first%blockKeys == 0 {
		w.mu.blocks[0] = nil
		w.mu.blocks = w.mu.blocks[1:]
	}
	return r.journal
}
