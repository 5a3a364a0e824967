package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

type manualKey struct{}

var manual = context.WithValue(context.Background(), manualKey{}, true)

// manualPartition is the partition that a sink has chosen; -1 if the key decides.
func manualPartition(r *kgo.Record) int32 {
	if r.Context != nil && r.Context.Value(manualKey{}) != nil {
		return r.Partition
	}
	return -1
}

// A partitioner obeys sinks that choose partitions, next to others that do not.
type partitioner struct{ kgo.Partitioner }

func newPartitioner() kgo.Partitioner {
	return partitioner{kgo.UniformBytesPartitioner(64<<10, true, true, nil)}
}

// ForTopic implements [kgo.Partitioner].
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.Partitioner.ForTopic(topic)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

// RequiresConsistency implements [kgo.TopicPartitioner].
func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return manualPartition(r) >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements [kgo.TopicPartitioner].
func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if m := manualPartition(r); m >= 0 {
		return int(m)
	}
	return p.TopicPartitioner.Partition(r, n)
}

// PartitionByBackup implements [kgo.TopicBackupPartitioner].
func (p topicPartitioner) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if inner, ok := p.TopicPartitioner.(kgo.TopicBackupPartitioner); ok && manualPartition(r) < 0 {
		return inner.PartitionByBackup(r, n, backup)
	}
	return p.Partition(r, n)
}

// OnNewBatch implements [kgo.TopicPartitionerOnNewBatch].
func (p topicPartitioner) OnNewBatch() {
	if inner, ok := p.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		inner.OnNewBatch()
	}
}
