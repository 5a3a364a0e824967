package kafka

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/node"
)

// TestBytesIn counts all that a record keeps in memory.
func TestBytesIn(t *testing.T) {
	r := &kgo.Record{Key: []byte("12"), Value: []byte("345"), Headers: []kgo.RecordHeader{{Key: "a", Value: make([]byte, 1000)}}}
	if got := bytesIn(r); got != 1006 {
		t.Errorf("got %d bytes, want 1006", got)
	}
}

// TestAheadClose frees what a client has read that is closed.
func TestAheadClose(t *testing.T) {
	account := node.NewMemory(1 << 30).Account("kafka_source")
	a := newAhead(1<<20, account)
	client, err := kgo.NewClient(kgo.WithHooks(a))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	a.OnFetchBatchRead(kgo.BrokerMetadata{}, "t", 0, kgo.FetchBatchMetrics{CompressedBytes: 10, UncompressedBytes: 1000, NumRecords: 1})
	if account.Held() == 0 {
		t.Fatal("nothing is held")
	}
	a.close()
	if held := account.Held(); held != 0 || a.full() {
		t.Errorf("%d bytes are held, want none", held)
	}
}

// TestRunWritten takes no record of a fork once it waits for those before.
func TestRunWritten(t *testing.T) {
	client, err := kgo.NewClient(kgo.TransactionalID("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r := newRun(&transaction{name: "x", clock: node.SystemClock{}}, client, time.Second)
	defer r.over(runAborted)
	if ok, err := r.enter(1); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r.leave(1)
	if !r.written(t.Context()) {
		t.Fatal(r.failed())
	}
	if ok, err := r.enter(1); ok || err == nil {
		t.Errorf("got %v, %v, want an error", ok, err)
	}
}

// TestRunOver waits for a record that is about to be produced, which would be in the next run.
func TestRunOver(t *testing.T) {
	r := newRun(&transaction{name: "x", clock: node.SystemClock{}}, nil, time.Second)
	r.gate.RLock()
	over := make(chan struct{})
	go func() { r.over(runAborted); close(over) }()
	<-r.ended.Done()
	select {
	case <-over:
		t.Error("it did not wait")
	default:
	}
	r.gate.RUnlock()
	<-over
}
