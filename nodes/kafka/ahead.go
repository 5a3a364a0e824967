package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// An ahead limits how much a client reads ahead. Brokers count bytes as they are stored,
// and the client decompresses all that comes: what repeats itself may be a hundred times
// as long then. It is a hook of the client, which calls it from any goroutine.
type ahead struct {
	most int64 // bytes, decompressed

	mu struct {
		sync.Mutex
		client *kgo.Client
		grows  float64 // the most that a batch has grown by lately, at least 1
	}
}

// firstAhead limits the first answer in bytes, and partitionAhead what each has of one partition.
// The broker sends one batch even if that is longer.
const firstAhead, partitionAhead, leastAhead = 1 << 20, 1 << 20, 64 << 10

// OnNewClient implements [kgo.HookNewClient].
func (a *ahead) OnNewClient(c *kgo.Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.client, a.mu.grows = c, 1
}

// OnFetchBatchRead implements [kgo.HookFetchBatchRead].
func (a *ahead) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	if m.CompressedBytes <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	const forget = 0.95 // a batch that has grown more counts for some dozen others
	a.mu.grows = max(1, forget*a.mu.grows, float64(m.UncompressedBytes)/float64(m.CompressedBytes))
	limit := int32(max(float64(a.most)/a.mu.grows, leastAhead))
	a.mu.client.UpdateFetchMaxBytes(limit, min(limit, partitionAhead))
}
