package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// Read implements [stream.Reader]. The group waits with a new assignment from when a
// message is taken from the client until the next call, by when the runtime has it.
func (r *sourceReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	if r.tx != nil {
		return r.readTransaction(ctx, room)
	}
	r.mu.Lock()
	r.mu.reading = true
	clear(r.mu.taken)
	held := len(r.mu.pending) > 0
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.mu.reading = false
		r.mu.Unlock()
	}()
	for {
		r.client.AllowRebalance()
		if held { // an empty poll holds the group
			ended, end := context.WithCancel(ctx)
			end()
			r.client.PollRecords(ended, 1)
		} else {
			fetches := r.client.PollFetches(ctx) // all, so that the client asks for more meanwhile
			if err := ctx.Err(); err != nil {
				r.keep(fetches)
				return nil, context.Cause(ctx)
			}
			if fetches.IsClientClosed() {
				return nil, fmt.Errorf("%w: %w", stream.ErrLost, kgo.ErrClientClosed)
			}
			r.keep(fetches)
			r.warnAll(ctx, fetches)
		}
		if taken := r.take(room); len(taken) > 0 {
			return taken, nil
		}
		held = false
	}
}

// warnAll logs the errors of fetches, and begins again with topics that were made again.
func (r *sourceReader) warnAll(ctx context.Context, fetches kgo.Fetches) {
	again := map[string]bool{}
	fetches.EachError(func(topic string, number int32, err error) {
		if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			r.warn(topic, number, err)
		}
		again[topic] = again[topic] || errors.Is(err, kerr.UnknownTopicID)
	})
	for topic := range again {
		if again[topic] && missing(ctx, r.client, []string{topic}) == nil {
			r.readAgain(topic)
		}
	}
}

// readAgain begins with a topic that was deleted and made again: to the client it is
// another one. What is under way of the old one has no position any more.
func (r *sourceReader) readAgain(topic string) {
	ctx, end := context.WithCancel(context.Background())
	end()
	r.mu.Lock()
	gone := map[string][]int32{}
	for p := range r.mu.lanes {
		if p.topic == topic {
			gone[topic] = append(gone[topic], p.number)
		}
	}
	r.mu.Unlock()
	r.lost(ctx, r.client, gone) // first: the rebalance that follows would commit positions of the old one
	r.client.AllowRebalance()
	r.client.PurgeTopicsFromConsuming(topic)
	r.client.AddConsumeTopics(topic)
	r.log.Info("the topic was made again, and is read from its begin", "topic", topic)
}

// A batch is the records of one partition that were read, and are past the room.
type batch struct {
	lane    int32
	records []*kgo.Record
	bytes   int64 // in the account of what is read ahead, until all are taken
}

// keep keeps what was read.
func (r *sourceReader) keep(fetches kgo.Fetches) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		p := partition{f.Topic, f.Partition}
		bytes := r.polledBytes(f.Records, p)
		if len(f.Records) == 0 {
			r.ahead.free(bytes)
			return
		}
		r.mu.pending = append(r.mu.pending, batch{r.laneOf(p), f.Records, bytes})
	})
}

// polledBytes returns how many bytes have come of a partition for the records that were polled.
// In a transaction, the client keeps those for which there was no room.
func (r *sourceReader) polledBytes(records []*kgo.Record, p partition) int64 {
	if r.tx == nil || r.client.BufferedFetchRecords() == 0 {
		return r.ahead.polled(p)
	}
	bytes := int64(0)
	for _, rec := range records {
		bytes += int64(len(rec.Key)+len(rec.Value)) + recordSize
	}
	return r.ahead.polledPart(p, bytes)
}

// laneOf returns the lane of a partition. The caller holds the lock.
func (r *sourceReader) laneOf(p partition) int32 {
	lane, ok := r.mu.lanes[p]
	if !ok {
		lane = int32(max(slices.Index(r.mu.used, false), 0))
		if len(r.mu.used) == 0 || r.mu.used[lane] {
			lane, r.mu.used = int32(len(r.mu.used)), append(r.mu.used, false)
		}
		r.mu.used[lane], r.mu.lanes[p] = true, lane
	}
	return lane
}

// take makes messages of what there is room for, and of at least one record. Partitions
// take turns.
func (r *sourceReader) take(room stream.Room) []stream.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken, size := r.mu.taken[:0], int64(0)
	full := func() bool {
		return len(taken) >= max(room.Messages, 1) || len(taken) > 0 && size >= room.Bytes
	}
	for len(r.mu.pending) > 0 && !full() {
		r.mu.turn %= len(r.mu.pending)
		b := &r.mu.pending[r.mu.turn]
		n := 0
		for ; n < min(len(b.records), r.oneTurn) && !full(); n++ {
			rec := b.records[n]
			key := unsafe.String(unsafe.SliceData(rec.Key), len(rec.Key)) // no one changes the record
			taken = append(taken, stream.Message{Raw: rec.Value, Key: key, Time: rec.Timestamp, Lane: b.lane, Offset: rec.Offset + 1, Token: rec})
			size += int64(len(rec.Value))
			rec.Key, rec.Value = nil, nil // the token stays longer, and would keep the whole batch
		}
		if b.records = b.records[n:]; len(b.records) > 0 {
			r.mu.turn++
		} else {
			r.ahead.free(b.bytes)
			r.mu.pending = slices.Delete(r.mu.pending, r.mu.turn, r.mu.turn+1)
		}
	}
	if r.mu.taken = taken; cap(taken) > maxSpace {
		r.mu.taken = nil
	}
	return taken
}

// maxSpace is the most messages whose memory is kept for those that are read next.
const maxSpace = 16 << 10

// warn logs an error of reading, the same one once a minute.
func (r *sourceReader) warn(topic string, number int32, err error) {
	if errors.Is(err, errNoRoom) {
		return // it comes again
	}
	if tooLarge, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
		r.stop(tooLarge)
		return
	}
	if isMissing(err) {
		err = fmt.Errorf("the topic does not exist any more: %w", err)
	} else if kerr.IsRetriable(err) {
		return // as a broker that has moved
	}
	now, key := r.clock.Now(), topic+" "+err.Error()
	if now.Sub(r.warned[key]) < time.Minute {
		return
	}
	maps.DeleteFunc(r.warned, func(_ string, at time.Time) bool { return now.Sub(at) >= time.Minute })
	r.warned[key] = now
	r.log.Warn("reading a topic fails, and goes on", "topic", topic, "partition", number, "error", err)
}

// stop notes that a partition is not read any more: it must not lose a message without a
// word.
func (r *sourceReader) stop(e *kgo.ErrDecompressTooLarge) {
	err := fmt.Errorf("%s/%d stops at offset %d, as the batch there has more than %d bytes when it is decompressed: give the program more memory, as by --memory, or let its producer make smaller batches",
		e.Topic, e.Partition, e.Offset, largestBatch(r.memory))
	r.log.Error("reading a partition has stopped", "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.stopped[partition{e.Topic, e.Partition}] = err
}
