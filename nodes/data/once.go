package data

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

// A durable process has no transaction of its own: it may wait for days, and go on in another
// program. Each packet that writes is committed by itself then, and in the same transaction a row
// of uniflow_once has its idempotency key and its answer. So it is done once, whenever the program
// crashes.

const (
	onceFind = `SELECT result FROM uniflow_once WHERE id = :id`
	onceKeep = `INSERT INTO uniflow_once (id, result) VALUES (:id, :result)`
)

// maxOnce is how many bytes of an answer are kept.
const maxOnce = 1 << 20

// onceKept is how long rows are kept, onceTidied how many are removed with one statement, and tidyEvery how
// often. A run that takes longer than that may do something twice after a crash.
const (
	onceKept   = 30 // days
	onceTidied = 1000
	tidyEvery  = time.Minute
)

// onceStatements make the table, and remove old rows of it.
func (n *sqlNode) onceStatements() (makes []string, tidies string) {
	const table = "CREATE TABLE IF NOT EXISTS uniflow_once (id VARCHAR(100) PRIMARY KEY, result %s NOT NULL, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP%s)"
	const old = "DELETE FROM uniflow_once WHERE id IN (SELECT id FROM uniflow_once WHERE at < %s LIMIT %d)"
	index := "CREATE INDEX IF NOT EXISTS uniflow_once_at ON uniflow_once (at)"
	switch n.driver.(type) {
	case *mysqlDriver: // its TEXT has 64 KiB
		return []string{fmt.Sprintf(table, "LONGTEXT", ", KEY uniflow_once_at (at)")},
			fmt.Sprintf("DELETE FROM uniflow_once WHERE at < CURRENT_TIMESTAMP - INTERVAL %d DAY LIMIT %d", onceKept, onceTidied)
	case *postgresDriver:
		return []string{fmt.Sprintf(table, "TEXT", ""), index}, fmt.Sprintf(old, fmt.Sprintf("CURRENT_TIMESTAMP - INTERVAL '%d days'", onceKept), onceTidied)
	default:
		return []string{fmt.Sprintf(table, "TEXT", ""), index}, fmt.Sprintf(old, fmt.Sprintf("datetime('now', '-%d days')", onceKept), onceTidied)
	}
}

// runOnce runs the statements of a query in a transaction, unless they have run with the key.
func (n *sqlNode) runOnce(ctx context.Context, key string, q query) (answer value.Value, err error) {
	if err := n.makeOnce(ctx); err != nil {
		return answer, fmt.Errorf("table uniflow_once, for durable processes: %w", err)
	}
	t := n.byPacket()
	found := false
	err = func() error {
		rows, err := n.statement(ctx, t, onceFind, key, value.Null())
		if err != nil {
			return err
		}
		if found = rows.Len() > 0; found {
			text, _ := rows.At(0).Get("result")
			answer, err = readAnswer(text.String())
			return err
		}
		if answer, err = n.run(ctx, t, q); err != nil {
			return err
		}
		result := wire.Writer{}
		if result.Value(answer); len(result.Buf) > maxOnce {
			return &node.Error{
				Err:  fmt.Errorf("the answer has %d bytes, and %d at most are kept with what a durable process writes: return fewer rows, or write once: false", len(result.Buf), maxOnce),
				Code: codeOnce, Status: http.StatusInternalServerError, Permanent: true,
			}
		}
		_, err = n.statement(ctx, t, onceKeep, key, value.String(base64.StdEncoding.EncodeToString(result.Buf)))
		return err
	}()
	undo := err
	if found {
		undo = errFound
	}
	if _, failed := t.end(ctx, undo); err == nil {
		err = failed
	}
	if err == nil && !found {
		n.tidyOnce(ctx)
	}
	return answer, err
}

// runAlone runs the statements of a query in a transaction of their own.
func (n *sqlNode) runAlone(ctx context.Context, q query) (answer value.Value, err error) {
	t := n.byPacket()
	answer, err = n.run(ctx, t, q)
	if _, failed := t.end(ctx, err); err == nil {
		err = failed
	}
	return answer, err
}

func (n *sqlNode) byPacket() byPacket {
	return byPacket{&transaction{pool: n.pool, node: n.ref, lock: fill(1)}, n.isolation}
}

// errFound ends a transaction that has only found that there is nothing to do.
var errFound = fmt.Errorf("it was done before")

func readAnswer(text string) (value.Value, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return value.Value{}, fmt.Errorf("a result in uniflow_once: %w", err)
	}
	r := wire.Reader{Buf: data, Error: func(*wire.Reader) error { return wire.ErrDamaged }} // answers have no errors
	return r.Whole()
}

// makeOnce makes the table, once for each node that is opened.
func (n *sqlNode) makeOnce(ctx context.Context) error {
	n.once.Lock()
	defer n.once.Unlock()
	if n.once.made {
		return nil
	}
	makes, _ := n.onceStatements()
	for _, text := range makes {
		if _, err := n.statement(ctx, alone{n}, text, "", value.Null()); err != nil {
			// Another engine was faster, or it is there and may not be made.
			if _, e := n.statement(ctx, alone{n}, onceFind, "", value.Null()); e != nil {
				return err
			}
			break
		}
	}
	n.once.made = true
	return nil
}

// tidyOnce removes some old rows, if it is time to. The packet is done whatever comes of it.
func (n *sqlNode) tidyOnce(ctx context.Context) {
	now := n.clock.Now()
	n.once.Lock()
	tidy := now.Sub(n.once.tidied) >= tidyEvery
	if tidy {
		n.once.tidied = now
	}
	n.once.Unlock()
	if !tidy {
		return
	}
	_, text := n.onceStatements()
	if _, err := n.statement(ctx, alone{n}, text, "", value.Null()); err != nil {
		n.log.Warn("old rows of uniflow_once could not be removed", "node", n.ref, "error", err)
	}
}

// statement runs one about a row of uniflow_once.
func (n *sqlNode) statement(ctx context.Context, in within, text, id string, result value.Value) (value.Value, error) {
	args := value.Map(value.Field{Name: "id", Value: value.String(id)}, value.Field{Name: "result", Value: result})
	q, err := n.query(value.List(value.String(text), args))
	if err != nil {
		return value.Value{}, err
	}
	return n.run(ctx, in, q)
}

// writes reports whether a statement of the query may change something.
func (q *query) writes() bool {
	for _, st := range q.script.statements {
		if st.effect == writes {
			return true
		}
	}
	return false
}

// keyOf returns the idempotency key of a packet of a durable process; empty for others.
func keyOf(p node.Process) string {
	if r, ok := node.RunOf(p); ok {
		return r.Key()
	}
	return ""
}
