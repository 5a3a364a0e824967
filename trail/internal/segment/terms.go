package segment

import (
	"hash/maphash"
	"sync"
	"unsafe"
)

// Terms are the strings of the columns of a Builder, each once. Several builders may
// share them; but only one goroutine may add events to these builders.
type Terms struct {
	names   termTable
	columns []*termTable // by property
}

// NewTerms returns terms without strings.
func NewTerms() *Terms { return &Terms{} }

// Bytes returns approximately the memory of the terms.
func (t *Terms) Bytes() int64 {
	n := t.names.bytes()
	for _, c := range t.columns {
		n += c.bytes()
	}
	return n
}

// Code returns the code of a string of a property, which it adds if it is new.
func (t *Terms) Code(property int, s string) uint32 {
	t.extend(property + 1)
	return t.columns[property].code(s)
}

func (t *Terms) extend(columns int) {
	for len(t.columns) < columns {
		t.columns = append(t.columns, &termTable{})
	}
}

func (t *Terms) reset() {
	t.names.reset()
	for _, c := range t.columns {
		c.reset()
	}
}

// A termTable gives the strings of a column codes from 1 on; 0 is the missing value.
// It is a hash table with open addressing, in which a lookup touches one slot, one
// header of a string and the string. A map of Go took three times as long for 50,000
// strings.
type termTable struct {
	slots []uint64 // the upper half of the hash, and the code; 0 for none
	shift int      // 64 less the bits of an index of slots
	terms []string // by code-1
	text  []byte   // what the next terms are cut from
	size  int64    // bytes of all text
	last  uint32   // code of the row before

	once   sync.Once // sorted and order are made
	sorted []string
	order  []uint32
}

// termSeed makes the places of strings unknown to senders.
var termSeed = maphash.MakeSeed()

// termText is how many bytes are allocated for strings at a time.
const termText = 64 << 10

func (w *termTable) code(s string) uint32 {
	if w.last != 0 && w.terms[w.last-1] == s {
		return w.last
	}
	if s == "" {
		return 0
	}
	hash := maphash.String(termSeed, s)
	if 2*len(w.terms) >= len(w.slots) {
		w.grow()
	}
	tag := hash &^ (1<<32 - 1)
	at := hash >> w.shift
	for ; w.slots[at] != 0; at = (at + 1) & uint64(len(w.slots)-1) {
		if slot := w.slots[at]; slot&^(1<<32-1) == tag && w.terms[uint32(slot)-1] == s {
			w.last = uint32(slot)
			return w.last
		}
	}
	w.terms = append(w.terms, w.copied(s))
	w.last = uint32(len(w.terms))
	w.slots[at] = tag | uint64(w.last)
	return w.last
}

// grow doubles the slots. An index is of the upper bits of the hash, which a slot has.
func (w *termTable) grow() {
	old := w.slots
	w.slots = make([]uint64, max(2*len(old), 16))
	w.shift = 64
	for n := len(w.slots); n > 1; n /= 2 {
		w.shift--
	}
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		at := slot >> w.shift
		for w.slots[at] != 0 {
			at = (at + 1) & uint64(len(w.slots)-1)
		}
		w.slots[at] = slot
	}
}

func (w *termTable) copied(s string) string {
	w.size += int64(len(s))
	if len(s) > cap(w.text)-len(w.text) {
		w.text = make([]byte, 0, max(len(s), int(min(max(w.size, 64), termText))))
	}
	from := len(w.text)
	w.text = append(w.text, s...)
	return unsafe.String(unsafe.SliceData(w.text[from:]), len(s))
}

func (w *termTable) bytes() int64 { return w.size + int64(len(w.slots))*8 + int64(cap(w.terms))*16 }

func (w *termTable) reset() {
	if len(w.slots) > 1<<12 {
		*w = termTable{} // clearing takes time by the largest size
		return
	}
	clear(w.slots)
	clear(w.terms)
	// The text is not reused: strings that were returned share it.
	*w = termTable{slots: w.slots, shift: w.shift, terms: w.terms[:0]}
}

// sort returns the strings in order, and for each code the place there, from 1 on. No
// string may be added after it.
func (w *termTable) sort() (sorted []string, order []uint32) {
	w.once.Do(func() {
		sorted, codes := sortTerms(w.terms)
		w.sorted, w.order = sorted, append(make([]uint32, 1, len(codes)+1), codes...)
	})
	return w.sorted, w.order
}
