package streams_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// markStores are the fields of each store of dedupe, for one run of a test.
func markStores(t *testing.T) map[string]string {
	return map[string]string{
		"memory":   "",
		"sqlite":   fmt.Sprintf("store: {driver: sqlite, source: '%s'},", filepath.Join(t.TempDir(), "db")),
		"redis":    fmt.Sprintf("store: {driver: redis, source: 'redis://%s'},", servertest.StartRedis(t, servertest.RedisOptions{}).Addr()),
		"postgres": fmt.Sprintf("store: {driver: postgres, source: 'postgres://postgres@%s/postgres', table: t%s},", servertest.Postgres(t).Addr, strings.ToLower(rand.Text())),
	}
}

// A crashing store of a journal commits no records any more, or no ends, once the test says so.
type crashing struct {
	*memory.Store
	records, ends atomic.Bool
}

func (s *crashing) Commit(ctx context.Context, b *journal.Batch) error {
	if s.records.Load() || len(b.Ends) > 0 && s.ends.Load() {
		return errors.New("the program has crashed")
	}
	return s.Store.Commit(ctx, b)
}

// Close leaves the journal to the next program.
func (s *crashing) Close() error { return nil }

// TestDedupeRuns has runs that crash while they have a key, or when it is marked and they have not ended. The
// run goes on, and does not find itself to be a duplicate; all others of the key are.
func TestDedupeRuns(t *testing.T) {
	for name, fields := range markStores(t) {
		for _, at := range []string{"records", "ends"} {
			t.Run(name+" "+at, func(t *testing.T) {
				document := fmt.Sprintf(`
- kind: listener
  name: web
  host: 127.0.0.1
  port: 0
  durability: {level: checkpoint, key: 'header[?"Idempotency-Key"][?0].orValue(null)'}
  ports: {out: [{name: once}]}
- {kind: dedupe, name: once, key: self.body.order, %s ports: {out: [{name: charge}], duplicate: [{name: twice}]}}
- {kind: snippet, name: twice, language: cel, code: '{"body": "duplicate"}'}
`, fields)
				store := &crashing{Store: memory.New()}
				begin := func(charge func(node.Process, node.Packet) node.Result) *flowtest.Flow {
					f := flowtest.New(t, std.Defs("cel")...)
					f.Options.Clock, f.Options.Journal = node.SystemClock{}, store
					f.Probe("charge").Do(charge)
					f.Serve(document)
					return f
				}
				order := func(f *flowtest.Flow, n int, key string) string {
					r := f.Request("POST", "/", fmt.Sprintf(`{"order": "%s %d"}`, at, n), "Content-Type", "application/json", "Idempotency-Key", key)
					return fmt.Sprint(r.Status, " ", r.Body)
				}
				answer := node.Answer(value.Map(value.Field{Name: "body", Value: value.String("charged")}))

				f := begin(func(node.Process, node.Packet) node.Result {
					store.records.Store(at == "records")
					store.ends.Store(at == "ends")
					return answer
				})
				if got := order(f, 1, "a"); !strings.HasPrefix(got, "503") {
					t.Fatalf("a crash: got %s", got)
				}
				f.Close()
				store.records.Store(false)
				store.ends.Store(false)

				entered, release := make(chan struct{}, 2), make(chan struct{})
				f = begin(func(node.Process, node.Packet) node.Result {
					return node.Block(func(context.Context) node.Result {
						entered <- struct{}{}
						<-release
						return answer
					})
				})
				if at == "records" { // the run is in its effect again
					<-entered
					if got := order(f, 1, "b"); !strings.HasPrefix(got, "503") {
						t.Errorf("while the run has the key: got %s", got)
					}
				}
				close(release)
				if got := order(f, 1, "a"); got != "200 charged" {
					t.Errorf("the run: got %s", got)
				}
				if got := order(f, 1, "c"); got != "200 duplicate" {
					t.Errorf("another run: got %s", got)
				}
				if got := order(f, 2, "d"); got != "200 charged" {
					t.Errorf("another key: got %s", got)
				}
			})
		}
	}
}

// TestDedupeStore marks keys of processes that are not durable in a database: across restarts, and two engines.
func TestDedupeStore(t *testing.T) {
	for name, fields := range markStores(t) {
		if fields == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			begin := func(fields string) *flowtest.Flow {
				f := flowtest.New(t, std.Defs("cel")...)
				f.Options.Clock = node.SystemClock{}
				f.Probe("again").Do(flowtest.Answer(value.String("duplicate")))
				f.Load("- {kind: dedupe, name: n, key: self, " + fields + " ports: {out: [{name: next}], duplicate: [{name: again}]}}\n")
				return f
			}
			send := func(f *flowtest.Flow, k int64) string { return flowtest.Show(f.Send("n", value.Int(k))) }
			a, b := begin(fields), begin(fields)
			expect(t, "first", send(a, 1), "1")
			expect(t, "in another engine", send(b, 1), `"duplicate"`)

			a.Probe("next").Do(flowtest.Fail(errors.New("down")))
			expect(t, "fails", send(a, 2), "error: down")
			expect(t, "after a failure", send(b, 2), "2")
			expect(t, "fails in vain", send(a, 2), `"duplicate"`)

			hold := make(chan struct{})
			a.Probe("next").Do(a.Until(hold, flowtest.Echo))
			call := a.Start("n", value.Int(3))
			a.Probe("next").Wait(3)
			expect(t, "while another engine has it", send(b, 3), "error: another process has this key, and has not ended")
			close(hold)
			expect(t, "it ends", flowtest.Show(call.Response()), "3")
			expect(t, "after it", send(b, 3), `"duplicate"`)

			a.Close()
			c := begin(fields)
			expect(t, "after a restart", send(c, 3), `"duplicate"`)
			c.Load(strings.ReplaceAll("- {kind: dedupe, name: m, key: self, "+fields+" ports: {out: [{name: next}]}}\n", "  ", " "))
			expect(t, "a node of another name", send2(c, "m", 3), "3")
			short := begin("ttl: 20ms, " + fields)
			expect(t, "with a short ttl", send(short, 4), "4")
			for deadline := time.Now().Add(10 * time.Second); send(short, 4) == `"duplicate"`; {
				if time.Now().After(deadline) {
					t.Fatal("the mark stays")
				}
			}
		})
	}
}

func send2(f *flowtest.Flow, name string, k int64) string {
	return flowtest.Show(f.Send(name, value.Int(k)))
}

// TestDedupeOutage kills the store between two messages of a key, and while a message is on its way.
func TestDedupeOutage(t *testing.T) {
	for _, driver := range []string{"redis", "postgres"} {
		for _, rule := range []string{"refuse", "pass"} {
			t.Run(driver+" "+rule, func(t *testing.T) {
				kill, restart, source := servertest.StartStore(t, driver)
				f := flowtest.New(t, std.Defs("cel")...)
				f.Options.Clock = node.SystemClock{}
				f.Probe("again").Do(flowtest.Answer(value.String("duplicate")))
				f.Load(fmt.Sprintf("- {kind: dedupe, name: n, key: self, store: {driver: %s, source: '%s', unavailable: %s}, ports: {out: [{name: next}], duplicate: [{name: again}]}}\n", driver, source, rule))
				send := func(k int64) node.Response { return f.Send("n", value.Int(k)) }
				expect(t, "first", flowtest.Show(send(1)), "1")

				f.Probe("next").Do(func(p node.Process, pkt node.Packet) node.Result {
					kill()
					return node.Answer(pkt.Payload)
				})
				if err := send(2).Payload.AsError(); rule == "pass" != (err == nil) {
					t.Errorf("killed meanwhile: got %v", err)
				}
				f.Probe("next").Do(flowtest.Echo)
				for range 2 {
					if v := send(1); rule == "pass" {
						expect(t, "while the store is away", flowtest.Show(v), "1")
					} else if e := node.Describe(v.Payload.AsError()); !v.IsError() || e.Status != 503 || !e.Outage {
						t.Errorf("while the store is away: got %s", flowtest.Show(v))
					}
				}
				restart()
				deadline := time.Now().Add(20 * time.Second)
				for k := int64(10); ; k++ { // the connection is made again in the background
					if !send(k).IsError() && flowtest.Show(send(k)) == `"duplicate"` {
						break
					}
					if time.Now().After(deadline) {
						t.Fatal("the store is not used again")
					}
				}
			})
		}
	}
}
