package durable

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// TestKilledWriting kills the server in the middle of writes and syncs of a transaction, and of a checkpoint, which is
// point K17 of TestPoints.
func TestKilledWriting(t *testing.T) {
	most := 3
	if full() {
		most = 24
	}
	file := binary(t, "")
	for n := 1; n <= most; n++ {
		for _, in := range []station{
			{kills: "write", file: "-wal", calls: "pwrite64", when: 3 + 7*n},
			{kills: "sync", file: "-wal", calls: "fsync,fdatasync", when: 1 + 2*n},
			{kills: "checkpoint", calls: "pwrite64", when: 1 + 2*n, stops: true},
		} {
			in.most = 1
			t.Run(fmt.Sprintf("%s:%d", in.kills, in.when), func(t *testing.T) {
				t.Parallel()
				in.test(t, file)
			})
		}
	}
}

// TestFailedDisk lets writes or syncs of the journal fail. Then durable triggers answer 503 until the server is started
// again, others serve, no effect begins, and no order or wait that was accepted is lost.
func TestFailedDisk(t *testing.T) {
	for calls, first := range map[string]int{"pwrite64": 100, "fsync,fdatasync": 30} { // it has been opened before
		t.Run(calls, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t)
			defer o.Close()
			port, signals, other, dir := freeport.Port(t), freeport.Port(t), freeport.Port(t), t.TempDir()
			p := newProgram(t, dir, fmt.Sprintf(stations, port, o.URL, signals)+fmt.Sprintf(plain, other))
			db := filepath.Join(dir, "runs.db")
			p.under = inject(db+"-wal", calls, fmt.Sprintf("error=EIO:when=%d+", first))
			p.start()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			url := fmt.Sprintf("http://127.0.0.1:%d/", port)
			up(t, ctx, url+"none")
			accepted := 0
			for ; ; accepted++ { // they come to wait for their signals
				got, err := later(ctx, url, accepted)
				if err != nil {
					t.Fatal(err)
				}
				if got == http.StatusServiceUnavailable {
					break
				}
				if got != http.StatusAccepted {
					t.Fatalf("order %d got the status %d", accepted, got)
				}
			}
			if accepted == 0 {
				t.Error("no order was accepted")
			}
			begun := o.count()
			for i := accepted - 1; i < accepted+3; i++ { // the first of them has its key, and goes on
				if got, err := later(ctx, url, i); err != nil || i >= accepted && got != http.StatusServiceUnavailable {
					t.Errorf("order %d got the status %d, %v after the failure", i, got, err)
				}
				if got, err := request(ctx, fmt.Sprintf("http://127.0.0.1:%d/", other), ""); err != nil || got.status != http.StatusNoContent {
					t.Errorf("what is not durable got %+v, %v", got, err)
				}
				if got, err := request(ctx, fmt.Sprintf("http://127.0.0.1:%d/?of=first-%d", signals, i), ""); err != nil || got.status != http.StatusServiceUnavailable {
					t.Errorf("a signal got %+v, %v", got, err)
				}
			}
			if after := o.count(); after > begun+accepted {
				t.Errorf("%d calls were begun after the failure", after-begun)
			}
			p.under = nil
			p.stop()
			o.quiet()
			p.start()
			o.finish(ctx, url, fmt.Sprintf("http://127.0.0.1:%d/", signals), accepted)
			p.stop()
			o.recorded(db, accepted, accepted)
			if !strings.Contains(p.log.String(), "the journal cannot be written") {
				t.Error("the log does not say that the journal cannot be written")
			}
			if t.Failed() {
				t.Log(p.log.String())
			}
		})
	}
}

// plain answers what is not durable.
const plain = `
- {kind: listener, name: plain, host: 127.0.0.1, port: %d, ports: {out: [{name: thanks}]}}
`

// finish sends the signals of all orders, and asks for their answers.
func (o *oracle) finish(ctx context.Context, url, signals string, orders int) {
	inParallel(orders, func(i int) {
		if err := o.approve(ctx, signals, i); err != nil {
			o.t.Errorf("order %d: its signal: %v", i, err)
		}
		answer, err := order(ctx, url, i)
		if err != nil {
			o.t.Errorf("order %d: %v", i, err)
		}
		if of, err := o.chain(answer); err != nil || of != fmt.Sprint(i) {
			o.t.Errorf("order %d: its answer %s is of order %q, %v", i, answer, of, err)
		}
	})
}

// count returns how many effects there are.
func (o *oracle) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.effects)
}

// later sends an order whose answer it does not wait for, and returns the status.
func later(ctx context.Context, url string, i int) (int, error) {
	got, err := request(ctx, url, fmt.Sprintf(`{"order": %d}`, i), "Idempotency-Key", fmt.Sprint("order-", i), "Prefer", "respond-async")
	return got.status, err
}
