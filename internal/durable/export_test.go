package durable

import (
	"testing"
	"time"
)

// SetRestTime changes how long a run only waits before it is unloaded, for keepers that are opened during a test.
func SetRestTime(t *testing.T, d time.Duration) {
	before := restTime
	restTime = d
	t.Cleanup(func() { restTime = before })
}

// Sizes returns how much a keeper has in its maps.
func (k *Keeper) Sizes() (signals, runs int) {
	s := &k.signals
	s.serial.Lock()
	defer s.serial.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	signals = len(s.pending) + len(s.waiting) + len(s.deliveries) + len(s.ended) + len(s.taken) + len(s.gone) + len(s.settled)
	return signals, len(k.mu.loaded) + len(k.mu.pending) + len(k.mu.watched) + len(k.mu.flights)
}

// QueueSizes returns how many items of queues have begun or are queued, and how many of their keys are known.
func (k *Keeper) QueueSizes() (items, keys int) {
	k.queues.mu.Lock()
	defer k.queues.mu.Unlock()
	for _, q := range k.queues.all {
		q.mu.Lock()
		items += q.mu.depth + len(q.mu.begun)
		keys += len(q.mu.lanes.byKey)
		q.mu.Unlock()
	}
	return items, keys
}

// From decodes from which node of another run a run begins; empty for none.
func From(input []byte) (node string, err error) {
	_, _, o, err := decodeStart(input)
	return o.from, err
}
