package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestAhead asks for fewer bytes of what becomes many, and for more when that has passed.
func TestAhead(t *testing.T) {
	const most = 16 << 20
	a := newAhead(most, (*node.Memory)(nil).Account(""))
	client, err := kgo.NewClient(kgo.FetchMaxBytes(firstAhead), kgo.WithHooks(a))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	f := func(batches, compressed, decompressed int, want int32) {
		t.Helper()
		for range batches {
			a.OnFetchBatchRead(kgo.BrokerMetadata{}, "t", 0, kgo.FetchBatchMetrics{CompressedBytes: compressed, UncompressedBytes: decompressed})
		}
		if got := client.OptValue(kgo.FetchMaxBytes); got != want {
			t.Errorf("%d batches of %d bytes, %d decompressed: got %v, want %d", batches, compressed, decompressed, got, want)
		}
	}
	f(0, 0, 0, firstAhead)
	f(1, 1000, 1000, most)
	f(1, 1000, 16_000, most/16)
	f(1, 0, 0, most/16)
	f(100, 1000, 8_000, most/8)
	f(100, 1000, 1000, most)
	f(1, 1000, 10_000_000, leastAhead)
}

// TestAheadAccount does not decompress past what may be read ahead, or past the memory of the
// program, except for one batch; what was taken makes room.
func TestAheadAccount(t *testing.T) {
	memory := node.NewMemory(16 << 20)
	for _, c := range []struct {
		most, want int64 // bytes: what a broker may send together, and what comes of that
	}{{1 << 20, 2 << 20}, {1 << 30, 8 << 20}, {1, 256 << 10}} {
		held := memory.Account("kafka_source")
		a := newAhead(c.most, held)
		a.inner = kgo.DefaultDecompressor()
		client, err := kgo.NewClient(kgo.WithHooks(a))
		if err != nil {
			t.Fatal(err)
		}
		const batch = 256 << 10
		read := func() error {
			if _, err := a.Decompress([]byte("raw"), kgo.CodecNone); err != nil {
				return err
			}
			a.OnFetchBatchRead(kgo.BrokerMetadata{NodeID: 1}, "t", 0, kgo.FetchBatchMetrics{CompressedBytes: 1, UncompressedBytes: batch - int(recordSize), NumRecords: 1})
			return nil
		}
		for read() == nil {
		}
		if held.Held() != c.want {
			t.Errorf("with at most %d, %d bytes are read ahead, want %d", c.most, held.Held(), c.want)
		}
		polled := a.polled(partition{"t", 0})
		if polled != held.Held() || a.polled(partition{"t", 0}) != 0 {
			t.Errorf("got %d bytes of the partition, want all of them once", polled)
		}
		if a.free(batch); c.want > batch && read() != nil {
			t.Error("there is no room after a batch was taken")
		}
		if err := read(); c.want > batch && !errors.Is(err, errNoRoom) {
			t.Errorf("got %v, want no room", err)
		}
		client.Close()
		held.Close()
	}
}
