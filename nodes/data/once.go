package data

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

// A durable process has no transaction of its own: it may wait for days, and go on in another
// program. Each packet that writes is committed by itself then, and in the same transaction a row
// of uniflow_once has its idempotency key and its answer. So it is done once, whenever the program
// crashes.

const (
	onceTable = `CREATE TABLE IF NOT EXISTS uniflow_once (id VARCHAR(100) PRIMARY KEY, result %s NOT NULL, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)`
	onceFind  = `SELECT result FROM uniflow_once WHERE id = :id`
	onceKeep  = `INSERT INTO uniflow_once (id, result) VALUES (:id, :result)`
)

// runOnce runs the statements of a query in a transaction, unless they have run with the key.
func (n *sqlNode) runOnce(ctx context.Context, key string, q query) (answer value.Value, err error) {
	if err := n.makeOnce(ctx); err != nil {
		return answer, fmt.Errorf("table uniflow_once, for durable processes: %w", err)
	}
	t := byPacket{&transaction{pool: n.pool, node: n.ref, lock: fill(1)}, n.isolation}
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
		result.Value(answer)
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
	return answer, err
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
	longest := "TEXT"
	if _, ok := n.driver.(*mysqlDriver); ok {
		longest = "LONGTEXT" // its TEXT has 64 KiB
	}
	q, err := n.query(value.String(fmt.Sprintf(onceTable, longest)))
	if err != nil {
		return err
	}
	_, err = n.run(ctx, alone{n}, q)
	n.once.made = err == nil
	return err
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
