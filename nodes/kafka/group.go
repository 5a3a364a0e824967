package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// groupOptions make the client a member of the group.
func (r *sourceReader) groupOptions() []kgo.Opt {
	session := r.config.Duration("session")
	return []kgo.Opt{
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(session / 4),
		kgo.ConsumerGroup(r.group), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.RebalanceTimeout(2 * handOver), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsCallbackBlocked(r.blocked), kgo.OnPartitionsRevoked(r.revoked), kgo.OnPartitionsLost(r.lost),
	}
}

// blocked lets the group go on if Read is not called, as there is no room: a second later
// the runtime has what Read has returned.
func (r *sourceReader) blocked(_ context.Context, client *kgo.Client) {
	r.clock.AfterFunc(time.Second, func(context.Context) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.mu.reading {
			client.AllowRebalance()
		}
	})
}

// revoked lets go of partitions, before another member gets them.
func (r *sourceReader) revoked(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
	ctx, end := context.WithTimeout(ctx, handOver)
	defer end()
	lanes := r.drop(gone)
	if len(lanes) > 0 {
		r.mark(r.host.Release(ctx, lanes))
	}
	if err := r.commit(context.WithoutCancel(ctx)); err != nil {
		r.log.Warn("the last positions are not committed, and messages may come again", "error", err)
	}
	r.forget(gone)
}

// lost lets go of partitions that another member may have already.
func (r *sourceReader) lost(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
	ctx, end := context.WithCancel(ctx)
	end()
	if lanes := r.drop(gone); len(lanes) > 0 {
		r.host.Release(ctx, lanes)
	}
	r.forget(gone)
}

// drop forgets the messages of partitions that the runtime does not have yet, and returns
// the lanes of those that it has. There are none when the reader is closed: the runtime
// has settled all.
func (r *sourceReader) drop(gone map[string][]int32) (lanes []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, numbers := range gone {
		for _, number := range numbers {
			if lane, ok := r.mu.lanes[partition{topic, number}]; ok {
				lanes = append(lanes, lane)
			}
		}
	}
	r.mu.pending = slices.DeleteFunc(r.mu.pending, func(b batch) bool {
		dropped := slices.Contains(lanes, b.lane)
		if dropped {
			r.ahead.free(b.bytes)
		}
		return dropped
	})
	if r.mu.closing {
		return nil
	}
	return lanes
}

// forget frees the lanes of partitions.
func (r *sourceReader) forget(gone map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, numbers := range gone {
		for _, number := range numbers {
			p := partition{topic, number}
			if lane, ok := r.mu.lanes[p]; ok {
				r.mu.used[lane] = false
			}
			delete(r.mu.lanes, p)
			delete(r.mu.commit, p)
			delete(r.mu.stopped, p)
			r.ahead.free(r.ahead.polled(p)) // of what the client has dropped
		}
	}
}

// mark keeps positions to be committed, of the partitions that this member has.
func (r *sourceReader) mark(marks []stream.Mark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range marks {
		rec := m.Token.(*kgo.Record)
		p := partition{rec.Topic, rec.Partition}
		if lane, ok := r.mu.lanes[p]; ok && lane == m.Lane {
			r.mu.commit[p] = kgo.EpochOffset{Epoch: rec.LeaderEpoch, Offset: rec.Offset + 1}
		}
	}
}

// commit commits what is kept. What Kafka does not accept is tried again the next time.
func (r *sourceReader) commit(ctx context.Context) error {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	r.mu.Lock()
	sent := maps.Clone(r.mu.commit)
	r.mu.Unlock()
	if len(sent) == 0 {
		return nil
	}
	for p, at := range sent {
		if offsets[p.topic] == nil {
			offsets[p.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.topic][p.number] = at
	}
	var errs []error
	r.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, t := range resp.Topics {
			for _, answer := range t.Partitions {
				p := partition{t.Topic, answer.Partition}
				if err := kerr.ErrorForCode(answer.ErrorCode); err != nil && !isMissing(err) { // a topic that is gone has none
					errs = append(errs, fmt.Errorf("%s/%d: %w", t.Topic, answer.Partition, err))
				} else if r.mu.commit[p] == sent[p] {
					delete(r.mu.commit, p)
				}
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("committing positions: %w", err)
	}
	return nil
}
