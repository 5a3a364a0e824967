package run

import "github.com/uniflow-labs/uniflow/internal/effect"

// Forgotten returns the indexes of the records that another attempt of a run must not have: the
// failures after which nothing has gone well in the place of what failed, and waits that have not ended,
// unless it still waits for them.
func Forgotten(records []Record, waits func(pos uint64) bool) (forgotten []int) {
	well, over := make(map[uint64]bool), make(map[uint64]bool)
	for i := range records {
		switch rec := &records[i]; {
		case rec.Type == ArrivalRecord:
			over[rec.Pos] = true
		case rec.Key != 0 && !rec.failed():
			well[rec.Key] = true
		}
	}
	for i := range records {
		rec := &records[i]
		if rec.failed() && !well[rec.Key] || rec.Type == HoldRecord && !over[mix(rec.Pos, uint64(ArrivalRecord))] && !waits(rec.Pos) {
			forgotten = append(forgotten, i)
		}
	}
	return forgotten
}

// failed reports whether the record is of a failure of a node.
func (rec *Record) failed() bool {
	return rec.Type == ResultRecord && (rec.Op == effect.Fail || rec.Payload.IsError())
}
