package kafka

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/node"
)

// An ahead limits how much a client reads ahead, and counts it in the account of the
// program. Brokers count bytes as they are stored, and the client decompresses all that
// comes: what repeats itself may be a hundred times as long then. Two things bound that: a
// broker is asked for as little as the batches before let expect, and what is too much
// all the same is not decompressed, but asked for again later.
//
// It is the decompressor and a hook of the client, which calls both from any goroutine.
type ahead struct {
	most  int64 // bytes of one fetch, decompressed
	held  *node.Account
	inner kgo.Decompressor // has a limit for each batch

	mu struct {
		sync.Mutex
		client  *kgo.Client
		grows   float64 // the most that a batch has grown by lately, at least 1
		brokers map[int32]struct{}
		read    map[partition]int64 // bytes that have come and were not polled
		bytes   int64               // of all that was not taken
	}
}

// firstAhead limits the first answer in bytes, and partitionAhead what each has of one partition.
// The broker sends one batch even if that is longer.
const firstAhead, partitionAhead, leastAhead = 1 << 20, 1 << 20, 64 << 10

// recordSize is what a record takes in addition to its bytes.
const recordSize = int64(unsafe.Sizeof(kgo.Record{}) + unsafe.Sizeof(&kgo.Record{}))

// errNoRoom refuses a batch for now. It does not leave this package.
var errNoRoom = errors.New("too much is read ahead")

func newAhead(most int64, held *node.Account) *ahead {
	a := &ahead{most: most, held: held}
	a.mu.grows, a.mu.brokers, a.mu.read = 1, make(map[int32]struct{}), make(map[partition]int64)
	return a
}

// largestBatch is how long a batch may be when it is decompressed: a part of the memory of
// the program, as it is one piece, and its records may take more than its bytes.
func largestBatch(m *node.Memory) int {
	const most, part = 1 << 30, 16
	if limit := m.Limit(); limit > 0 {
		return int(max(1<<20, min(most, limit/part)))
	}
	return most
}

// OnNewClient implements [kgo.HookNewClient].
func (a *ahead) OnNewClient(c *kgo.Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.client = c
}

// Decompress implements [kgo.Decompressor]. The client keeps what it has of a partition when
// it fails, and asks for the rest again.
func (a *ahead) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if a.full() {
		return nil, errNoRoom
	}
	return a.inner.Decompress(src, codec)
}

// full reports whether nothing more may be decompressed. If nothing is read ahead, one batch
// may.
func (a *ahead) full() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	brokers := int64(max(len(a.mu.brokers), 1))
	return a.mu.bytes > 0 && (a.mu.bytes >= 2*a.most*brokers || a.held.Full())
}

// OnFetchBatchRead implements [kgo.HookFetchBatchRead].
func (a *ahead) OnFetchBatchRead(broker kgo.BrokerMetadata, topic string, number int32, m kgo.FetchBatchMetrics) {
	if m.CompressedBytes <= 0 {
		return
	}
	bytes := int64(m.UncompressedBytes) + int64(m.NumRecords)*recordSize
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.NumRecords > 0 {
		a.mu.brokers[broker.NodeID] = struct{}{}
		a.mu.read[partition{topic, number}] += bytes
		a.mu.bytes += bytes
		a.held.Hold(bytes)
	}
	const forget = 0.95 // a batch that has grown more counts for some dozen others
	a.mu.grows = max(1, forget*a.mu.grows, float64(bytes)/float64(m.CompressedBytes))
	limit := int32(max(float64(a.most)/a.mu.grows, leastAhead))
	a.mu.client.UpdateFetchMaxBytes(limit, min(limit, partitionAhead))
}

// polled returns how many bytes have come of a partition, which the caller frees.
func (a *ahead) polled(p partition) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	bytes := a.mu.read[p]
	delete(a.mu.read, p)
	return bytes
}

// polledPart is polled for as many bytes as were taken, at most.
func (a *ahead) polledPart(p partition, bytes int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	bytes = min(bytes, a.mu.read[p])
	a.mu.read[p] -= bytes
	return bytes
}

// free says that bytes are not held by the client or this node any more.
func (a *ahead) free(bytes int64) {
	if bytes == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.bytes -= bytes
	a.held.Free(bytes)
}
