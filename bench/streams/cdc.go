package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/value"
)

// cdcRows is how many rows are inserted at scale 1, of about 200 bytes, in transactions of cdcTogether.
const cdcRows, cdcTogether = 500_000, 100

// measureCDC is CDC: changes of PostgreSQL into a stream of Redis. The slot of each round is a
// copy of one that stays where the changes begin.
func measureCDC(ctx context.Context, l *lab) error {
	db, err := servertest.StartPostgres("wal_level=logical")
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := pgx.Connect(ctx, db.PostgresURL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	dir := l.File("cdc")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	server, addr, err := l.broker(ctx, "redis", "-dir", dir)
	if err != nil {
		return err
	}
	defer server.stop()
	client, err := redisClient(addr)
	if err != nil {
		return err
	}
	defer client.Close()
	n := l.count(cdcRows) / cdcTogether * cdcTogether
	for _, statement := range []string{
		"CREATE TABLE orders (id bigint PRIMARY KEY, customer text, country text, amount double precision, count int, city text, note text)",
		"CREATE PUBLICATION bench FOR TABLE orders",
		"SELECT pg_create_logical_replication_slot('begin', 'pgoutput')",
		fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
			INSERT INTO orders SELECT j, 'u' || j %% 10000, 'KR', j %% 10000 / 100.0, 1 + j %% 9, 'Seoul', 'please ring twice, and leave it with the neighbour, order ' || j FROM generate_series((i - 1) * %d + 1, i * %d) j;
			COMMIT; END LOOP; END $$`, n/cdcTogether, cdcTogether, cdcTogether),
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	move := func(name, program string, args ...string) round {
		return round{name, func(ctx context.Context) (cost, int, error) {
			if _, err := conn.Exec(ctx, "SELECT pg_copy_logical_replication_slot('begin', 'bench', false)"); err != nil {
				return cost{}, 0, err
			}
			c, moved, err := l.through(ctx, n, func(ctx context.Context) (int, error) {
				length, err := client.Do(ctx, client.B().Xlen().Key("out").Build()).AsInt64()
				return int(length), err
			}, program, args...)
			for _, statement := range []string{
				"SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE slot_name = 'bench' AND active",
				"SELECT pg_drop_replication_slot('bench')",
			} {
				_, failed := conn.Exec(ctx, statement)
				err = errors.Join(err, failed)
			}
			return c, moved, errors.Join(err, client.Do(ctx, client.B().Del().Key("out").Build()).Error())
		}}
	}
	const order = `{"id": M.row.id, "user": M.row.customer, "total": M.row.amount * double(M.row.count), "city": M.row.city}`
	ours := func(name, fields, code string) (round, error) {
		document, err := l.write(name+".yaml", fmt.Sprintf(`
- {kind: postgres_cdc, name: in, source: '%s', slot: bench, publication: bench, tables: orders, max_in_flight: 4096%s, ports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: '%s', ports: {out: [{name: out}]}}
- {kind: redis_sink, name: out, urls: ['redis://%s'], stream: out, max_in_flight: 4096}
`, db.PostgresURL(), fields, code, addr))
		return move(name, l.Binary, "start", document), err
	}
	one := strings.ReplaceAll(order, "M.", "body.")
	byKey, err := ours("uniflow", ", order: key, key: self.key", one)
	if err != nil {
		return err
	}
	total, err := ours("uniflow, one after the other", "", one)
	if err != nil {
		return err
	}
	batches, err := ours("uniflow, batches one after the other", ", batch: {count: 1000}", "self.map(m, "+strings.ReplaceAll(order, "M.", "m.body.")+")")
	if err != nil {
		return err
	}
	rounds := []round{byKey, total, batches}
	for _, form := range []string{"one after the other", "read ahead"} {
		rounds = append(rounds, move(form, l.Self, formArgs("cdc", form, db.PostgresURL(), addr)...))
	}
	first, best, err := l.compare(ctx, "CDC", rounds...)
	if err != nil {
		return err
	}
	l.rate("CDC", first, best, 0.7)
	l.cpu("CDC", first, best, 1.5)
	return nil
}

// A cdcBatch is what transactions became, up to the end of the last one.
type cdcBatch struct {
	bodies []string
	end    pglogrepl.LSN
}

// cdcForm is the baseline: form, database, server. What changes became is stored before the server
// of the database may forget them.
func cdcForm(ctx context.Context, args []string) error {
	client, err := redisClient(args[2])
	if err != nil {
		return err
	}
	defer client.Close()
	config, err := pgconn.ParseConfig(args[1])
	if err != nil {
		return err
	}
	config.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := pglogrepl.StartReplication(ctx, conn, "bench", 0, pglogrepl.StartReplicationOptions{PluginArgs: []string{"proto_version '1'", "publication_names 'bench'"}}); err != nil {
		return err
	}
	store := func(b cdcBatch) (stored pglogrepl.LSN, err error) {
		commands := make(rueidis.Commands, len(b.bodies))
		for i, body := range b.bodies {
			commands[i] = client.B().Xadd().Key("out").Id("*").FieldValue().FieldValue("body", body).Build()
		}
		for _, r := range client.DoMulti(ctx, commands...) {
			if err := r.Error(); err != nil {
				return 0, err
			}
		}
		return b.end, nil
	}
	if args[0] == "one after the other" {
		return cdcRead(ctx, conn, store)
	}
	batches := make(chan cdcBatch, 3)
	var stored atomic.Uint64
	ctx, stop := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() {
		for b := range batches {
			end, err := store(b)
			if err != nil {
				stop(err)
				return
			}
			stored.Store(uint64(end))
		}
	})
	defer close(batches)
	return cdcRead(ctx, conn, func(b cdcBatch) (pglogrepl.LSN, error) {
		select {
		case batches <- b:
			return pglogrepl.LSN(stored.Load()), nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
}

// cdcRead reads changes, and gives on batches of redisBatch, or what has come if no more does. give
// returns what the server may forget.
func cdcRead(ctx context.Context, conn *pgconn.PgConn, give func(cdcBatch) (pglogrepl.LSN, error)) error {
	var b cdcBatch
	columns := map[string]int{}
	for ctx.Err() == nil {
		if err := conn.Conn().SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			return err
		}
		for len(b.bodies) < redisBatch || b.end == 0 {
			m, err := conn.ReceiveMessage(context.Background())
			if err != nil && pgconn.Timeout(err) {
				break
			}
			if err != nil {
				return err
			}
			if data, ok := m.(*pgproto3.CopyData); ok && data.Data[0] == pglogrepl.XLogDataByteID {
				if err := b.add(data.Data[25:], columns); err != nil {
					return err
				}
			}
		}
		if len(b.bodies) == 0 || b.end == 0 {
			continue
		}
		stored, err := give(b)
		if err == nil && stored > 0 {
			err = pglogrepl.SendStandbyStatusUpdate(ctx, conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: stored})
		}
		if err != nil {
			return err
		}
		b = cdcBatch{bodies: make([]string, 0, redisBatch+cdcTogether)}
	}
	return nil
}

// add maps a change. The end is 0 in the middle of a transaction.
func (b *cdcBatch) add(msg []byte, columns map[string]int) error {
	switch pglogrepl.MessageType(msg[0]) {
	case pglogrepl.MessageTypeRelation:
		m, err := pglogrepl.Parse(msg)
		if err != nil {
			return err
		}
		for i, c := range m.(*pglogrepl.RelationMessage).Columns {
			columns[c.Name] = i
		}
	case pglogrepl.MessageTypeBegin:
		b.end = 0
	case pglogrepl.MessageTypeCommit:
		b.end = pglogrepl.LSN(binary.BigEndian.Uint64(msg[10:]))
	case pglogrepl.MessageTypeInsert:
		m, err := pglogrepl.Parse(msg)
		if err != nil {
			return err
		}
		row := m.(*pglogrepl.InsertMessage).Tuple.Columns
		text := func(name string) string { return string(row[columns[name]].Data) }
		id, err := strconv.ParseInt(text("id"), 10, 64)
		amount, errAmount := strconv.ParseFloat(text("amount"), 64)
		count, errCount := strconv.ParseFloat(text("count"), 64)
		if err := errors.Join(err, errAmount, errCount); err != nil {
			return err
		}
		body, err := orderShape.Map(value.Int(id), value.String(text("customer")), value.Float(amount*count), value.String(text("city"))).AppendJSON(nil)
		b.bodies = append(b.bodies, string(body))
		return err
	}
	return nil
}
