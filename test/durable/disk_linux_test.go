package durable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
			{kills: "checkpoint", calls: "pwrite64", when: 2 + n, stops: true},
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
			up(t, ctx, url+"none")
			// The commit of the last may be there, although the sync has failed: its client asks again.
			if got, err := later(ctx, url, accepted); err != nil || got != http.StatusAccepted {
				t.Errorf("the order that failed got the status %d, %v once more", got, err)
			}
			orders := accepted + 1
			o.finish(ctx, url, fmt.Sprintf("http://127.0.0.1:%d/", signals), orders)
			p.stop()
			o.recorded(db, orders, orders)
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

// TestFullDisk fills the disk of the journal while orders come, wait, are unloaded and go on. Meanwhile what is durable
// gets 503; once there is room all go on without a restart, and no effect is repeated.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Logf("no file system of its own, so that of package journal/sqlite has to do: %v", err)
		return
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	rounds := 3
	if full() {
		rounds = 30
	}
	const orders = 8 // of a round
	o := newOracle(t)
	defer o.Close()
	port, signals, admin := freeport.Port(t), freeport.Port(t), freeport.Port(t)
	p := newProgram(t, dir, fmt.Sprintf(stations, port, o.URL, signals))
	p.args = append(p.args, "--admin", fmt.Sprint("127.0.0.1:", admin))
	p.start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	url, approvals := fmt.Sprintf("http://127.0.0.1:%d/", port), fmt.Sprintf("http://127.0.0.1:%d/", signals)
	up(t, ctx, url+"none")
	ballast := filepath.Join(dir, "ballast")
	all := 0
	var clients sync.WaitGroup
	for round := range rounds {
		from := all
		for range orders {
			if err := begin(ctx, url, all); err != nil {
				t.Fatal(err)
			}
			all++
		}
		if round%3 == 1 { // of these the first have left memory
			waitFor(t, ctx, "an order that has left memory", func() bool {
				return strings.Contains(p.runs(t, admin, "waiting"), "orders")
			})
		}
		fill(t, ballast)
		refused := all // no order may be taken for ever on a full disk
		for ; ; refused++ {
			got, err := later(ctx, url, refused)
			if err != nil {
				t.Fatal(err)
			}
			if got == http.StatusServiceUnavailable {
				break
			}
			if got != http.StatusAccepted {
				t.Fatalf("order %d got the status %d on the full disk", refused, got)
			}
		}
		all = refused + 1
		if got, err := request(ctx, approvals+fmt.Sprintf("?of=first-%d", from), ""); err != nil || got.status != http.StatusServiceUnavailable {
			t.Errorf("a signal got %+v, %v on the full disk", got, err)
		}
		for i := from; i < all; i++ {
			clients.Go(func() {
				if err := begin(ctx, url, i); err != nil { // the one that was refused is sent again
					t.Errorf("order %d: %v", i, err)
				}
				if err := o.approve(ctx, approvals, i); err != nil {
					t.Errorf("order %d: its signal: %v", i, err)
				}
				answer, err := order(ctx, url, i)
				if err != nil {
					t.Errorf("order %d: %v", i, err)
				}
				if of, err := o.chain(answer); err != nil || of != fmt.Sprint(i) {
					t.Errorf("order %d: its answer %s is of order %q, %v", i, answer, of, err)
				}
			})
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 { // else the next round begins while these go on
			clients.Wait()
		}
	}
	clients.Wait()
	p.stop()
	for _, e := range o.effects {
		if e.calls != 1 {
			t.Errorf("%s was called %d times with %s", e.path, e.calls, e.body)
		}
	}
	o.recorded(filepath.Join(dir, "runs.db"), all, all)
	if n := strings.Count(p.log.String(), "the journal can be written again"); n < 1 {
		t.Errorf("the log says %d times that the journal can be written again", n)
	}
}

// fill writes to a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		n, err := f.Write(make([]byte, size))
		switch {
		case err != nil && !errors.Is(err, syscall.ENOSPC):
			t.Fatal(err)
		case err != nil && n == 0:
			size /= 2
		}
	}
}

// runs lists the runs in a state.
func (p *program) runs(t *testing.T, admin int, state string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), p.args[0], "runs", "list", "--admin", fmt.Sprint("127.0.0.1:", admin), "--state", state).CombinedOutput()
	if err != nil {
		t.Fatalf("runs list: %v: %s", err, out)
	}
	return string(out)
}
