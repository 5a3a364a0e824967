package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestAhead asks for fewer bytes of what becomes many, and for more when that has passed.
func TestAhead(t *testing.T) {
	const most = 16 << 20
	a := &ahead{most: most}
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
