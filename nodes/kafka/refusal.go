package kafka

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/node"
)

// A refusal is a record that Kafka has refused, or a topic. When a message comes again, its record
// is tried alone in its batch; if it is refused there, its process fails instead of the run.
type refusal struct {
	err   error
	alone bool
	at    time.Time
}

// refusedFor is how long a record fails without another try, and mostRefused how many are known.
const refusedFor, mostRefused = time.Minute, 1000

// identity is the same for a record whenever its message comes.
func identity(r *kgo.Record) [32]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %d ", r.Topic, manualPartition(r), len(r.Key), len(r.Value))
	h.Write(r.Key)
	h.Write(r.Value)
	for _, f := range r.Headers {
		fmt.Fprintf(h, " %d %d %s", len(f.Key), len(f.Value), f.Key)
		h.Write(f.Value)
	}
	return [32]byte(h.Sum(nil))
}

// topicOf is the identity of all records of a topic.
func topicOf(r *kgo.Record) [32]byte { return sha256.Sum256([]byte(r.Topic)) }

// suspect returns what is known of a record that was refused; ok is false for others.
func (t *transaction) suspect(r *kgo.Record) (refused refusal, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.refused) == 0 {
		return refused, false
	}
	if refused, ok = t.mu.refused[topicOf(r)]; !ok {
		refused, ok = t.mu.refused[identity(r)]
	}
	return refused, ok && t.clock.Now().Sub(refused.at) < refusedFor
}

// accept forgets that a record was refused, as it is written now.
func (t *transaction) accept(r *kgo.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.refused, topicOf(r))
	delete(t.mu.refused, identity(r))
}

// refuse notes what Kafka has refused.
func (t *transaction) refuse(r *kgo.Record, err error, alone bool) {
	of := identity(r)
	if oneOf(err, ofTopic) {
		of = topicOf(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if len(t.mu.refused) >= mostRefused {
		maps.DeleteFunc(t.mu.refused, func(_ [32]byte, old refusal) bool { return now.Sub(old.at) >= refusedFor })
	}
	if len(t.mu.refused) < mostRefused {
		t.mu.refused[of] = refusal{err, alone, now}
	}
}

// The errors of a record, and of all records of its topic.
var (
	ofRecord = []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp}
	ofTopic  = []error{kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed}
)

func oneOf(err error, of []error) bool {
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

// isRefusal reports whether an error is one of the record, and will not go away by itself.
func isRefusal(err error) bool {
	return oneOf(err, ofRecord) || oneOf(err, ofTopic) || node.Describe(err).Code == "bad_partition"
}
