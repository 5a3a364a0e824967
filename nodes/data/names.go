package data

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// A fixedStatement is a statement of a node upstream that is always the same. The database is
// asked to prepare it before the first message, so that a table that is missing is found then.
type fixedStatement struct {
	*statement
	from node.Ref
}

// A schemaUse is what the nodes of all generations do to the names of one database.
type schemaUse struct {
	// changes counts nodes that get statements from triggers which may change what names
	// mean: those that make tables, or set where tables are, and those that are not known. What
	// is missing now may come with the next message then, so nothing is looked for.
	changes atomic.Int32
}

// foresee finds the statements that come to a node from triggers, as far as they are always
// the same. Those that come from lifecycle workflows alone have run when a database is asked.
func foresee(v *node.Vertex, s syntax) (fixed []fixedStatement, changes bool) {
	for _, from := range v.In {
		if !triggered(from) {
			continue
		}
		own, ok := fixedStatements(from, v, s)
		changes = changes || !ok
		fixed = append(fixed, own...)
	}
	return fixed, changes
}

// triggered reports whether packets of a trigger may come to a node, as far as is known.
func triggered(v *node.Vertex) bool {
	begins := func(v *node.Vertex) bool { return v.Def == nil || v.Def.Begins() }
	for from := range node.Reach(node.Up, []*node.Vertex{v}, begins) {
		if begins(from) {
			return true
		}
	}
	return false
}

// fixedStatements returns the statements that a node sends to another one. It is not ok if they
// are not known, or may change what names mean.
func fixedStatements(from, to *node.Vertex, s syntax) (fixed []fixedStatement, ok bool) {
	leads := func(t node.Target) bool { return t.Node == to }
	if from.Traits.FixedText == nil || slices.ContainsFunc(from.Err, leads) {
		return nil, false
	}
	text, ok := from.Traits.FixedText()
	if !ok {
		return nil, false
	}
	parsed, err := parse(text, s, false)
	if err == nil && parsed.colons {
		parsed, err = parse(text, s, true)
	}
	if err != nil {
		return nil, true // the node refuses it
	}
	for _, st := range parsed.statements {
		switch {
		case st.ddl, !st.rows && !st.counts, st.effect == outside:
			return nil, false
		case parsed.names && !parsed.colons: // by name, or a variable of the database
		default:
			fixed = append(fixed, fixedStatement{st, from.Ref})
		}
	}
	return fixed, true
}

// share informs the other nodes of the database whether this one changes what names mean.
func (n *sqlNode) share() (err error) {
	if n.database == "" { // of a Database
		return nil
	}
	use, release, err := node.Acquire(n.pools, "sql names "+n.database, func() (*schemaUse, error) { return new(schemaUse), nil })
	if err != nil {
		return err
	}
	if n.use, n.unshare = use, release; n.changes {
		use.changes.Add(1)
		n.unshare = func() error {
			use.changes.Add(-1)
			return release()
		}
	}
	return nil
}

// Find looks for what the statements name. See [node.Finder].
func (n *sqlNode) Find(ctx context.Context) (err error) {
	if len(n.fixed) > 0 {
		n.lookup, err = stream.NewLookup(ctx, n.ref, n.log, n.find)
	}
	return err
}

func (n *sqlNode) find(ctx context.Context) error {
	if n.use.changes.Load() > 0 {
		return nil
	}
	c, err := n.pool.try(ctx)
	if err != nil {
		return n.pool.failed(ctx, err)
	}
	defer n.pool.release(c)
	for _, st := range n.fixed {
		err := c.run(ctx, st.statement, nil, new(result)) // for no rows, so it is only prepared
		switch {
		case n.lacks(err):
			return fmt.Errorf("the statement of %q (%s): %w", st.from, st.from.Pos, n.pool.failed(ctx, err))
		case c.state() == stateLost:
			return n.pool.failed(ctx, err)
		}
	}
	return nil
}

// Ready implements [node.Readier].
func (n *sqlNode) Ready() error { return n.lookup.Ready() }

// An unpreparedError is why the database has not prepared a statement.
type unpreparedError struct{ error }

// Unwrap lets errors.As find the error of the database.
func (e *unpreparedError) Unwrap() error { return e.error }

// lacks reports whether a statement was not prepared because it names what is not there, or is
// wrong.
func (n *sqlNode) lacks(err error) bool {
	var unprepared *unpreparedError
	return errors.As(err, &unprepared) && n.pool.driver.lacks(unprepared.error)
}

// missed makes an outage of the error of a statement that names what is not there, if that is
// looked for: it is not the fault of the message. Of any other statement that is wrong it says so.
func (n *sqlNode) missed(st *statement, cause, described error) error {
	if !n.lacks(cause) || n.use.changes.Load() > 0 {
		return described
	}
	e := *node.Describe(described)
	if slices.ContainsFunc(n.fixed, func(f fixedStatement) bool { return f.text == st.text }) {
		e.Status, e.Code, e.Outage = http.StatusServiceUnavailable, codeMissing, true
	} else {
		e.Permanent = true
	}
	return &e
}
