//go:build unix

package sqlstore_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/internal/sqlstore"
)

func stop() { servertest.Stop() }

// TestPostgres makes the tables in PostgreSQL, prepares every statement there, and writes and
// reads a few rows with them.
func TestPostgres(t *testing.T) {
	conn, err := pgx.Connect(ctx, servertest.Postgres(t).PostgresURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	all, err := sqlstore.Steps(sqlstore.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	s := sqlstore.NewStatements(sqlstore.Postgres)
	for _, step := range all {
		if _, err := conn.PgConn().Exec(ctx, step.Text).ReadAll(); err != nil {
			t.Fatalf("step %s: %v", step.Version, err)
		}
		if _, err := conn.Exec(ctx, s.PutVersion, step.Version.String()); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range s.All() {
		if _, err := conn.PgConn().Prepare(ctx, "", text, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}

	p, err := sqlstore.NewPacker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	run := &journal.Run{ID: journal.ID{1}, Namespace: "n", Trigger: "t", State: journal.Running, Key: []byte("k"), KeyUntil: at(9), Input: make([]byte, 1<<17), InputHash: 1<<63 + 1, Created: at(1)}
	other := &journal.Run{ID: journal.ID{2}, Namespace: "n", Trigger: "t", State: journal.Running, Key: []byte("k"), Input: []byte("b"), Created: at(2)}
	record := &journal.Record{Run: run.ID, N: 1, Pos: 1<<63 + 2, Op: 255, Port: -1, Payload: []byte("r"), At: at(3)}
	exec := func(want int64, text string, args []any, blob *sqlstore.Blob) {
		t.Helper()
		tag, err := conn.Exec(ctx, text, args...)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if tag.RowsAffected() != want {
			t.Errorf("%s: got %d rows, want %d", text, tag.RowsAffected(), want)
		}
		if blob != nil {
			if _, err := conn.Exec(ctx, s.PutBlob, sqlstore.BlobArgs(nil, blob)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	args, blob, _ := sqlstore.RunArgs(nil, run, nil, p)
	exec(1, s.InsertRuns(1), args, blob)
	args, blob, _ = sqlstore.RunArgs(nil, other, nil, p)
	exec(0, s.InsertRuns(1), args, blob) // it has the key
	args, blob = sqlstore.RecordArgs(nil, record, p)
	exec(1, s.InsertRecords(1), args, blob)
	args, blob = sqlstore.EndArgs(nil, &journal.End{Run: run.ID, State: journal.OK, Answer: []byte("a"), At: at(4)}, p)
	exec(1, s.EndRun, args, blob)

	rows := func(text string, args ...any) (all [][]any) {
		t.Helper()
		rows, err := conn.Query(ctx, text, args...)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		defer rows.Close()
		for rows.Next() {
			row, err := rows.Values()
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range row { // narrow columns
				switch v := v.(type) {
				case int16:
					row[i] = int64(v)
				case int32:
					row[i] = int64(v)
				}
			}
			all = append(all, row)
		}
		if rows.Err() != nil {
			t.Fatalf("%s: %v", text, rows.Err())
		}
		return all
	}
	got := rows(s.RunByKey, "n", "t", []byte("k"))
	if len(got) != 1 {
		t.Fatalf("got %d runs", len(got))
	}
	r, err := sqlstore.RunOf(got[0], p)
	if err != nil || r.ID != run.ID || len(r.Input) != 1<<17 || string(r.Answer) != "a" || r.InputHash != run.InputHash || !r.Ended.Equal(at(4)) {
		t.Errorf("got %+v, %v", r, err)
	}
	if got := rows(s.Records, run.ID[:]); len(got) != 1 {
		t.Errorf("got %d records", len(got))
	} else if r, err := sqlstore.RecordOf(got[0], p); err != nil || r.Pos != record.Pos || r.Port != -1 || r.Op != 255 {
		t.Errorf("got %+v, %v", r, err)
	}
	signals(t, s, run.ID, exec, rows)
	text, listArgs := s.List(journal.Filter{States: []journal.State{journal.OK}, Since: at(1), After: journal.ID{9}})
	if got := rows(text, listArgs...); len(got) != 1 {
		t.Errorf("got %d runs", len(got))
	}
}

// signals writes and reads waits of a run, and signals.
func signals(t *testing.T, s *sqlstore.Statements, run journal.ID, exec func(int64, string, []any, *sqlstore.Blob), rows func(string, ...any) [][]any) {
	t.Helper()
	waits := func(want []journal.Wait, text string, args ...any) {
		t.Helper()
		var got []journal.Wait
		for _, row := range rows(text, args...) {
			w, err := sqlstore.WaitOf(row)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, w)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	timer := journal.Wait{Run: run, Pos: 1<<63 + 1, Namespace: "n", Due: at(5).UTC()}
	signal := journal.Wait{Run: run, Pos: 2, Namespace: "n", Event: "e", Key: "k", Token: []byte{0, 255}, Due: at(6).UTC()}
	before := signal
	before.Event, before.Token = "other", nil
	for _, w := range []journal.Wait{timer, before, signal} {
		exec(1, s.PutWait, sqlstore.WaitArgs(nil, &w), nil)
	}
	exec(1, s.EndRun, []any{int64(journal.Waiting), nil, nil, int64(0), nil, run[:]}, nil)
	waits([]journal.Wait{timer, signal}, s.Waits, run[:])
	waits([]journal.Wait{signal}, s.Waiting, "n", "e", "k")
	waits([]journal.Wait{signal}, s.Token, []byte{0, 255})
	waits([]journal.Wait{timer, signal}, s.Due, at(6).UnixMilli(), int64(10))
	waits([]journal.Wait{timer}, s.Due, at(6).UnixMilli(), int64(1))
	next := rows(s.Next)
	if len(next) != 1 {
		t.Fatalf("got %d rows of the next wait", len(next))
	}
	if due, err := sqlstore.TimeOf(next[0]); err != nil || !due.Equal(timer.Due) {
		t.Errorf("got the next at %v, %v, want %v", due, err, timer.Due)
	}
	exec(1, s.DeleteWait, []any{run[:], int64(2)}, nil)
	exec(0, s.DeleteWait, []any{run[:], int64(2)}, nil)
	waits([]journal.Wait{timer}, s.Waits, run[:])
	exec(1, s.CountResumed, []any{run[:]}, nil)
	waits(nil, s.Due, at(6).UnixMilli(), int64(10))
	exec(1, s.EndRun, []any{int64(journal.OK), []byte("a"), nil, int64(0), at(4).UnixMilli(), run[:]}, nil)
	exec(1, s.DeleteHolds, []any{run[:]}, nil)
	exec(0, s.CountResumed, []any{run[:]}, nil)

	keep := at(9).UTC()
	first := journal.Signal{Namespace: "n", ID: "z", Event: "e", Key: "k", Payload: []byte("p"), Until: keep}
	second := journal.Signal{Namespace: "n", ID: "a", Event: "e", Key: "k", Until: keep}
	exec(1, s.PutSignal, sqlstore.SignalArgs(nil, &first, 1), nil)
	exec(1, s.PutSignal, sqlstore.SignalArgs(nil, &second, 2), nil)
	exec(0, s.PutSignal, sqlstore.SignalArgs(nil, &first, 3), nil)
	check := func(want []journal.Signal, text string, args ...any) {
		t.Helper()
		var got []journal.Signal
		for _, row := range rows(text, args...) {
			one, err := sqlstore.SignalOf(row)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, one)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	check([]journal.Signal{first, second}, s.Signals, "n", "e", "k", keep.UnixMilli()-1)
	check(nil, s.Signals, "n", "e", "k", keep.UnixMilli())
	exec(1, s.TakeSignal, []any{sqlstore.SignalKey("n", "z")}, nil)
	check([]journal.Signal{second}, s.Untaken, keep.UnixMilli()-1)
	check(nil, s.Signals, "n", "", "", keep.UnixMilli()-1)
	if n := len(rows(s.Known, sqlstore.SignalKey("n", "z"))); n != 1 {
		t.Errorf("got %d rows of a signal that is taken", n)
	}
	expired := rows(s.Expired, keep.UnixMilli(), int64(10))
	if len(expired) != 2 {
		t.Fatalf("got %d rows of signals that are over", len(expired))
	}
	key, err := sqlstore.KeyOf(expired[0])
	if err != nil {
		t.Fatal(err)
	}
	exec(1, s.DeleteSignal, []any{key}, nil)
	for _, text := range append(slices.Clone(s.Orphans), s.Idle) {
		if got := rows(text); len(got) != 1 || got[0][len(got[0])-1] != int64(0) {
			t.Errorf("%s: got %v", text, got)
		}
	}
}
