package run

import (
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/internal/effect"
)

// Forgotten returns the indexes of the records that another attempt of a run must not have: the
// failures after which nothing has gone well in the place of what failed, and waits that have not ended,
// unless it still waits for them. Without such a failure it is the workflow's own code that has failed for what it
// got, such as a throw after an answer that is of no use: with the same records the same workflow would fail again, so
// all are forgotten.
func Forgotten(records []Record, same bool, waits func(pos uint64) bool) (forgotten []int) {
	well, over := make(map[uint64]bool), make(map[uint64]bool)
	for i := range records {
		switch rec := &records[i]; {
		case rec.Type == ArrivalRecord:
			over[rec.Pos] = true
		case rec.Key != 0 && !rec.failed():
			well[rec.Key] = true
		}
	}
	failed := false
	for i := range records {
		rec := &records[i]
		fails := rec.failed() && !well[rec.Key]
		failed = failed || fails
		if fails || rec.Type == HoldRecord && !over[ArrivalOf(rec.Pos)] && !waits(rec.Pos) {
			forgotten = append(forgotten, i)
		}
	}
	if failed || !same {
		return forgotten
	}
	forgotten = forgotten[:0]
	for i := range records {
		forgotten = append(forgotten, i)
	}
	return forgotten
}

// ArrivalOf returns the position of what ends a wait.
func ArrivalOf(hold uint64) uint64 { return mix(hold, uint64(ArrivalRecord)) }

// failed reports whether the record is of a failure of a node.
func (rec *Record) failed() bool {
	return rec.Type == ResultRecord && rec.Op == effect.Fail || (rec.Type == ResultRecord || rec.Type == StepRecord) && rec.Payload.IsError()
}

// A run may begin from a node of another one: it has copies of the records of that run, and those do not count for
// the activations of the node and all that its answers lead to. What is below the node has it among the activations
// that it comes from. An answer of the node also goes back, to all of these: what they send after it is done again,
// too, except where they have sent to the node itself, as a loop does with its next element: there it begins as the
// one before it did, and has its records.

// A redone says what of an activation is done again.
type redone struct {
	up   *activation // that it comes from; nil for the first, and in a run that begins from no node
	at   uint32      // pieces of up that have run before it
	all  bool
	back atomic.Pointer[back] // nil as long as the node has not been come to from here
}

// A back is where the answers of the node come back to an activation.
type back struct {
	at  uint32 // pieces that have run when it sent to the node
	via uint64 // hash of the id of what it sent to
}

// comesFrom says where a new activation comes from.
func (a *activation) comesFrom(from *activation, idHash uint64) {
	r := &a.redone
	r.up, r.at = from, from.pieces
	b := from.redone.back.Load()
	r.all = from.redone.all || b != nil && r.at > b.at && idHash != b.via
	if r.all || a.ref.ID != a.run.from {
		return
	}
	r.all = true
	for at, via := r, idHash; at.up != nil; at = &at.up.redone {
		at.up.redone.back.CompareAndSwap(nil, &back{at.at, via})
		via = mixText(0, at.up.ref.ID)
	}
}

// counts reports whether a record counts for an activation that has its position.
func (a *activation) counts(rec *Record) bool { return !rec.Copied || !a.redone.all }
