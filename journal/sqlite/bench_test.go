package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driverpkg "modernc.org/sqlite"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

// The benchmarks commit runs of a start, three records and an end, as a committer does that
// has four groups of them in flight: a commit has the starts of one group, a record each of
// the next two, and the last record and the end of the oldest.

const steps = 4

var payload = []byte(strings.Repeat("0123456789", 20))

// A cohort is the runs that start in one commit.
func cohort(n, at int, keyed bool) []*journal.Run {
	runs := make([]*journal.Run, n)
	for i := range runs {
		r := &journal.Run{Namespace: "default", Trigger: "0f3a9c5e7b1d2468", Revision: "5feceb66ffc86f38d952786c6d696c79", Level: 2, State: journal.Running, Input: payload, InputHash: 1 << 63,
			Created: time.UnixMilli(int64(1_800_000_000_000 + at))}
		binary.BigEndian.PutUint64(r.ID[:], uint64(1_800_000_000_000+at)<<16|7<<12)
		binary.BigEndian.PutUint64(r.ID[8:], uint64(at*n+i)*0x9e3779b97f4a7c15) // random bits follow the time
		if keyed {
			r.Key = r.ID[8:]
			r.KeyUntil = r.Created.Add(time.Hour)
		}
		runs[i] = r
	}
	return runs
}

// A feed makes batches.
type feed struct {
	n     int
	keyed bool
	at    int
	live  [steps][]*journal.Run // the youngest first
}

func (f *feed) next(b *journal.Batch) (ended int) {
	copy(f.live[1:], f.live[:steps-1])
	f.live[0] = cohort(f.n, f.at, f.keyed)
	f.at++
	b.Starts, b.Records, b.Ends = f.live[0], b.Records[:0], b.Ends[:0]
	for n := 1; n < steps; n++ {
		for _, r := range f.live[n] {
			b.Records = append(b.Records, journal.Record{Run: r.ID, N: int32(n), Pos: 1<<63 + uint64(n), Node: "7b1d24680f3a9c5e", Payload: payload, InputHash: 1<<63 + 1, At: r.Created})
		}
	}
	for _, r := range f.live[steps-1] {
		b.Ends = append(b.Ends, journal.End{Run: r.ID, State: journal.OK, Answer: payload, At: r.Created})
	}
	return len(b.Ends)
}

func measure(b *testing.B, n int, keyed bool, commit func(*journal.Batch)) {
	f := feed{n: n, keyed: keyed}
	batch := new(journal.Batch)
	for range steps {
		f.next(batch)
		commit(batch)
	}
	b.ReportAllocs()
	runs := 0
	start := time.Now()
	for b.Loop() {
		runs += f.next(batch)
		commit(batch)
	}
	b.ReportMetric(float64(runs)/time.Since(start).Seconds(), "runs/s")
}

func sizes(b *testing.B, f func(b *testing.B, n int, keyed bool)) {
	for _, keyed := range []bool{false, true} {
		for _, n := range []int{64, 256} {
			b.Run(fmt.Sprintf("keyed=%t/%d", keyed, n), func(b *testing.B) { f(b, n, keyed) })
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	sizes(b, func(b *testing.B, n int, keyed bool) {
		s, err := sqlite.Open(filepath.Join(b.TempDir(), "j"), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		}()
		measure(b, n, keyed, func(batch *journal.Batch) {
			if err := s.Commit(context.Background(), batch); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// file makes a journal with its tables, for a bare loop.
func file(b *testing.B) string {
	name := filepath.Join(b.TempDir(), "j")
	s, err := sqlite.Open(name, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return "file:" + name + "?_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(4096)&_pragma=cache_size(-16384)"
}

const (
	insertRun    = "INSERT INTO runs (id, ns, trigger, revision, level, state, key, key_until, input, input_hash, packed, created) VALUES "
	insertRecord = "INSERT INTO records (run, n, pos, node, type, op, port, payload, input_hash, packed, at) VALUES "
	endRun       = "UPDATE runs SET state = ?, answer = ?, error = ?, packed = ?, ended = ? WHERE id = ?"
)

func values(n, width int) string {
	one := "(?" + strings.Repeat(",?", width-1) + ")"
	return one + strings.Repeat(","+one, n-1)
}

func runArgs(args []any, r *journal.Run) []any {
	var key, until any
	if r.Key != nil {
		key, until = r.Key, r.KeyUntil.UnixMilli()
	}
	return append(args, r.ID[:], r.Namespace, r.Trigger, r.Revision, int64(r.Level), int64(r.State), key, until, r.Input, int64(r.InputHash), int64(0), r.Created.UnixMilli())
}

func recordArgs(args []any, r *journal.Record) []any {
	return append(args, r.Run[:], int64(r.N), int64(r.Pos), r.Node, int64(r.Type), int64(r.Op), int64(r.Port), r.Payload, int64(r.InputHash), int64(0), r.At.UnixMilli())
}

func endArgs(args []any, e *journal.End) []any {
	return append(args, int64(e.State), e.Answer, nil, int64(0), e.At.UnixMilli(), e.Run[:])
}

// BenchmarkBare writes the same rows in the same transactions without a store. Figures of
// the store are compared with the fastest form.
func BenchmarkBare(b *testing.B) {
	b.Run("pool", func(b *testing.B) { sizes(b, barePool) })
	for _, rows := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			sizes(b, func(b *testing.B, n int, keyed bool) { bareDriver(b, n, keyed, rows) })
		})
	}
}

// barePool uses database/sql, a row a statement.
func barePool(b *testing.B, n int, keyed bool) {
	db, err := sql.Open("sqlite", file(b))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	prepare := func(text string) *sql.Stmt {
		st, err := db.Prepare(text)
		if err != nil {
			b.Fatal(err)
		}
		return st
	}
	run, record, end := prepare(insertRun+values(1, 12)), prepare(insertRecord+values(1, 11)), prepare(endRun)
	var args []any
	measure(b, n, keyed, func(batch *journal.Batch) {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		exec := func(st *sql.Stmt) {
			if _, err := st.Exec(args...); err != nil {
				b.Fatal(err)
			}
		}
		runTx, recordTx, endTx := tx.Stmt(run), tx.Stmt(record), tx.Stmt(end)
		for _, r := range batch.Starts {
			args = runArgs(args[:0], r)
			exec(runTx)
		}
		for i := range batch.Records {
			args = recordArgs(args[:0], &batch.Records[i])
			exec(recordTx)
		}
		for i := range batch.Ends {
			args = endArgs(args[:0], &batch.Ends[i])
			exec(endTx)
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	})
}

// bareDriver uses the driver without the pool, with some rows a statement.
func bareDriver(b *testing.B, n int, keyed bool, rows int) {
	opened, err := new(driverpkg.Driver).Open(file(b))
	if err != nil {
		b.Fatal(err)
	}
	defer opened.Close()
	prepare := func(text string) func(args []any) {
		st, err := opened.Prepare(text)
		if err != nil {
			b.Fatal(err)
		}
		named := make([]driver.NamedValue, 12*rows)
		for i := range named {
			named[i].Ordinal = i + 1
		}
		return func(args []any) {
			for i, v := range args {
				named[i].Value = v
			}
			if _, err := st.(driver.StmtExecContext).ExecContext(context.Background(), named[:len(args)]); err != nil {
				b.Fatal(err)
			}
		}
	}
	run, record := prepare(insertRun+values(rows, 12)), prepare(insertRecord+values(rows, 11))
	end, begin, commit := prepare(endRun), prepare("BEGIN IMMEDIATE"), prepare("COMMIT")
	var args []any
	measure(b, n, keyed, func(batch *journal.Batch) {
		begin(nil)
		for i := 0; i < len(batch.Starts); i += rows {
			args = args[:0]
			for _, r := range batch.Starts[i:min(i+rows, len(batch.Starts))] {
				args = runArgs(args, r)
			}
			run(args)
		}
		for i := 0; i < len(batch.Records); i += rows {
			args = args[:0]
			for j := range batch.Records[i:min(i+rows, len(batch.Records))] {
				args = recordArgs(args, &batch.Records[i+j])
			}
			record(args)
		}
		for i := range batch.Ends {
			args = endArgs(args[:0], &batch.Ends[i])
			end(args)
		}
		commit(nil)
	})
}

// BenchmarkWaits asks for waits among a million of runs that wait, of which 10,000 are due. To make
// that journal takes about a minute.
func BenchmarkWaits(b *testing.B) {
	const runs, due, each = 1_000_000, 10_000, 10_000
	s := open(b, filepath.Join(b.TempDir(), "j"))
	defer shut(b, s)
	now := time.UnixMilli(1_800_000_000_000)
	var last journal.Wait
	for at := range runs / each {
		batch := &journal.Batch{Starts: cohort(each, at, false)}
		for i, r := range batch.Starts {
			last = journal.Wait{Run: r.ID, Pos: 1 << 63, Namespace: r.Namespace, Event: "paid", Key: fmt.Sprint("order ", at*each+i), Token: r.ID[:], Due: now.Add(time.Hour)}
			if i < each*due/runs {
				last.Due = now
			}
			batch.Waits = append(batch.Waits, last)
			batch.Ends = append(batch.Ends, journal.End{Run: r.ID, State: journal.Waiting})
		}
		commit(b, s, batch)
	}
	measured := func(name string, f func() (wrong int, err error)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if wrong, err := f(); err != nil || wrong != 0 {
					b.Fatalf("it differs by %d, %v", wrong, err)
				}
			}
		})
	}
	for _, limit := range []int{100, due} {
		measured(fmt.Sprintf("Due=%d", limit), func() (int, error) {
			waits, err := s.Due(b.Context(), now, limit)
			return len(waits) - limit, err
		})
	}
	measured("Next", func() (int, error) {
		t, err := s.Next(b.Context())
		return int(t.Sub(now)), err
	})
	measured("Waiting", func() (int, error) {
		waits, err := s.Waiting(b.Context(), "default", "paid", last.Key)
		return len(waits) - 1, err
	})
	measured("Token", func() (int, error) {
		w, err := s.Token(b.Context(), last.Token)
		return int(w.Pos - last.Pos), err
	})
	measured("Unfinished", func() (int, error) {
		runs, err := s.Unfinished(b.Context())
		return len(runs), err
	})
}
