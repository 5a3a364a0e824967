package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// polled notes where reading has begun.
func (x *transactor) polled(fetches kgo.Fetches) {
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if p := (partition{f.Topic, f.Partition}); len(f.Records) > 0 {
			if _, ok := x.first[p]; !ok {
				x.first[p] = kgo.EpochOffset{Epoch: f.Records[0].LeaderEpoch, Offset: f.Records[0].Offset}
			}
		}
	})
}

// unplaced is how the client has a position that the group has not.
var unplaced = kgo.EpochOffset{Epoch: -1}

// anchor commits where reading has begun in partitions of which the group has no position yet:
// after an abort, another client would begin elsewhere, as with start: last.
func (x *transactor) anchor(ctx context.Context, r *sourceReader) error {
	committed := r.client.CommittedOffsets()
	r.mu.Lock()
	for p, at := range x.first {
		if before, ok := committed[p.topic][p.number]; ok && before == unplaced {
			r.mu.commit[p] = at
		}
	}
	r.mu.Unlock()
	err := r.commit(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.mu.commit)
	return err
}

// rewind lets partitions of which the group has no position yet go on where they have begun: the
// client takes that for position 0.
func (x *transactor) rewind(r *sourceReader) {
	to, committed := map[string]map[int32]kgo.EpochOffset{}, r.client.CommittedOffsets()
	for p, first := range x.first {
		if at, ok := committed[p.topic][p.number]; ok && at == unplaced {
			if to[p.topic] == nil {
				to[p.topic] = map[int32]kgo.EpochOffset{}
			}
			to[p.topic][p.number] = kgo.EpochOffset{Epoch: -1, Offset: first.Offset}
		}
	}
	clear(x.first)
	r.client.SetOffsets(to)
}
