package run

import "github.com/uniflow-labs/uniflow/internal/effect"

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
		if fails || rec.Type == HoldRecord && !over[mix(rec.Pos, uint64(ArrivalRecord))] && !waits(rec.Pos) {
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

// failed reports whether the record is of a failure of a node.
func (rec *Record) failed() bool {
	return rec.Type == ResultRecord && rec.Op == effect.Fail || (rec.Type == ResultRecord || rec.Type == StepRecord) && rec.Payload.IsError()
}
