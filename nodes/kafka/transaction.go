package kafka

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/uniflow-labs/uniflow/node"
)

// A transaction is what the source and the sinks of one name share, of all generations. The
// source makes the client, and begins and ends runs; sinks write in the run of their process.
type transaction struct {
	name  string
	clock node.Clock
	mu    struct {
		sync.Mutex
		owner   *sourceReader // that is connected
		wanted  producing     // of the sink that has opened last
		refused map[[32]byte]refusal
	}
}

// producing is how a client has to produce, as the sinks say.
type producing struct {
	compression string
	maxMessage  int32
	create      bool
}

// acquireTransaction returns the transaction of a name.
func acquireTransaction(pool *node.Pool, clock node.Clock, name string) (*transaction, func() error, error) {
	return node.Acquire(pool, "kafka transaction "+name, func() (*transaction, error) {
		t := &transaction{name: name, clock: clock}
		t.mu.wanted = producing{"snappy", 1_000_000, false}
		t.mu.refused = map[[32]byte]refusal{}
		return t, nil
	})
}

func (t *transaction) want(p producing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.wanted = p
}

func (t *transaction) wanted() producing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.wanted
}

// take makes a source the owner. Two would end each other's runs. An error may go away: the
// source of the workflow before a reload may have another name.
func (t *transaction) take(r *sourceReader) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.owner != nil && t.mu.owner != r {
		return fmt.Errorf("another source of this program has the transaction %q: give each source a transaction of its own", t.name)
	}
	t.mu.owner = r
	return nil
}

func (t *transaction) leave(r *sourceReader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.owner == r {
		t.mu.owner = nil
	}
}

// runOf returns the run of a process; nil if it has none of this transaction.
func (t *transaction) runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	if r == nil || r.of != t {
		return nil
	}
	return r
}

// outside is the error of a process that does not belong to the transaction.
func (t *transaction) outside() error {
	return &node.Error{
		Err:    fmt.Errorf("the process was not started by the source of the transaction %q, so what it sends could not be committed with a message", t.name),
		Status: http.StatusInternalServerError, Code: "transaction",
	}
}

// isFenced reports whether another client has taken the transaction over, or Kafka has ended it.
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}
