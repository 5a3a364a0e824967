package data

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed sql.md
var sqlPage string

func sqlDef() *node.Def {
	return &node.Def{
		Kind:    "sql",
		Summary: "Runs statements of SQL on SQLite, PostgreSQL or MySQL, in one transaction a process.",
		Page:    node.ReadPage(sqlPage),
		Config: schema.Fields(
			schema.Enum("driver", "sqlite", "postgres", "mysql", "internal").Required().Doc("The database. `mysql` is for MariaDB, too; `internal` shows what the engine runs."),
			schema.String("source").Secret().Doc("Where the database is: see below."),
			schema.String("isolation").Words(true, isolationWords...).Doc("The isolation of transactions: a name such as `serializable`, or its number in quotes. If it is set, reading begins a transaction, too."),
			schema.Int("max_conns").Default(10).Range(1, 10000).Doc("The most connections. With SQLite in memory there is one."),
			schema.Duration("timeout").Default("30s").Doc("The longest time for a statement, with the wait for a connection. 0 is without limit."),
			schema.Duration("connect_timeout").Default("30s").Doc("How long connecting is tried when the node starts. 0 is without limit."),
			schema.Bool("once").Default(true).Doc("In a durable process, a packet that writes is done once, also over a crash: see below."),
		),
		In:     []node.Port{{Name: "in", Doc: "A statement, or a list of a statement and its arguments."}},
		Out:    []node.Port{{Name: "out", Doc: "The rows, as a list of maps, or `{affected, last_id}`."}},
		Traits: node.Fixed(node.Traits{Is: node.Commits | node.TakesStatements | node.OwnStatus}),
		Recall: node.Always(node.Effects),
		New:    newSQL,
	}
}

// A sqlNode is a node of kind sql.
type sqlNode struct {
	pools     *node.Pool
	clock     node.Clock
	log       *slog.Logger
	driver    dbDriver
	database  string // what it is called in the pool of the engine
	key       string // of the connections
	maxConns  int
	isolation string
	keeps     bool // field once
	timeout   time.Duration
	connect   time.Duration

	ref     node.Ref
	fixed   []fixedStatement // that triggers send; what they name is looked for
	changes bool             // see schemaUse

	once struct {
		sync.Mutex
		made   bool // the table uniflow_once
		tidied time.Time
	}
	pool    *pool
	use     *schemaUse
	unshare func() error   // of use; nil for a Database
	lookup  *stream.Lookup // nil without fixed
	release func() error
}

func newSQL(init *node.Init) (node.Node, error) {
	c := init.Config
	n := &sqlNode{
		pools: init.Pool, clock: init.Clock, log: init.Log,
		maxConns: int(c.Int("max_conns")), keeps: c.Bool("once"), timeout: c.Duration("timeout"), connect: c.Duration("connect_timeout"),
	}
	name, source := c.String("driver"), c.String("source")
	if name == "sqlite" {
		source = sameSQLite(source)
	}
	n.database = name + " " + source
	n.key = "sql " + name + " " + strconv.Itoa(n.maxConns) + " " + source
	if name == "internal" {
		n.driver, n.key, n.maxConns = &internalDriver{init.System}, fmt.Sprintf("sql internal %p", init.System), 1
		return n, nil
	}
	var err error
	if n.driver, err = openDriver(c, n.timeout, n.connect, cancelGrace); err != nil {
		return nil, err
	}
	n.ref = init.Node
	if n.fixed, n.changes = foresee(init.Vertex, n.driver.syntax()); init.ErrorLinks > 0 {
		n.fixed = nil // what is linked to the error port knows what to do
	}
	if text := c.String("isolation"); text != "" {
		var ok bool
		if n.isolation, ok = isolationOf(text); !ok {
			return nil, c.Errorf("isolation", diag.CodeBadValue, "is not the name or the number of an isolation").
				WithHint("want one of %s", strings.Join(isolationWords, ", "))
		}
	}
	return n, nil
}

// openDriver makes the driver that a config names, for the database that it names.
func openDriver(c schema.Config, timeout, connect, cancel time.Duration) (d dbDriver, err error) {
	name, source := c.String("driver"), c.String("source")
	if source == "" {
		return nil, c.Errorf("source", diag.CodeMissingField, "is missing").WithHint("write where the database is, such as %s", exampleSources[name])
	}
	switch name {
	case "sqlite":
		d, err = newSQLite(source, timeout)
	case "postgres":
		d, err = newPostgres(source, cancel)
	case "mysql":
		d, err = newMySQL(source, connect)
	}
	if err != nil { // may quote the source, which is secret
		return nil, c.Errorf("source", diag.CodeBadValue, "is not one of %s", name).WithHint("write one such as %s", exampleSources[name])
	}
	return d, nil
}

var exampleSources = map[string]string{
	"sqlite":   "shop.db or :memory:",
	"postgres": "postgres://user:password@localhost:5432/shop",
	"mysql":    "user:password@tcp(localhost:3306)/shop",
}

// The isolations, numbered as in database/sql.
var (
	isolationWords   = []string{"default", "read uncommitted", "read committed", "repeatable read", "snapshot", "serializable"}
	isolationNumbers = map[string]string{"0": "default", "1": "read uncommitted", "2": "read committed", "4": "repeatable read", "5": "snapshot", "6": "serializable"}
)

// isolationOf returns an isolation as SQL has it.
func isolationOf(text string) (string, bool) {
	name, ok := isolationNumbers[text]
	if !ok {
		name = strings.NewReplacer("_", " ", "-", " ").Replace(strings.ToLower(text))
	}
	for _, word := range isolationWords {
		if word == name {
			if name == "snapshot" { // what databases that do not know the word call it
				name = "repeatable read"
			}
			return name, true
		}
	}
	return "", false
}

// Open connects.
func (n *sqlNode) Open(ctx context.Context) (err error) {
	n.pool, n.release, err = node.Acquire(n.pools, n.key, func() (*pool, error) {
		return newPool(n.driver, n.maxConns, n.clock, n.log), nil
	})
	if err != nil {
		return err
	}
	if err := n.share(); err != nil {
		return errors.Join(err, n.Close())
	}
	ctx, stop := withTimeout(ctx, n.clock, n.connect)
	defer stop()
	if err := n.pool.open(ctx); err != nil {
		n.Close()
		return fmt.Errorf("the database cannot be reached: %w", n.pool.failed(context.Background(), err))
	}
	return nil
}

// Close lets go of the connections.
func (n *sqlNode) Close() error {
	if n.release == nil {
		return nil
	}
	err := n.lookup.Close()
	if n.unshare != nil {
		err = errors.Join(err, n.unshare())
	}
	err = errors.Join(err, n.release())
	n.release, n.unshare, n.lookup = nil, nil, nil
	return err
}

// Receive runs the statement of a packet.
func (n *sqlNode) Receive(p node.Process, pkt node.Packet) node.Result {
	q, err := n.query(pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	key := keyOf(p)
	return node.Block(func(ctx context.Context) node.Result {
		answer, err := n.answer(ctx, p, key, q)
		if err != nil {
			return node.Fail(err)
		}
		return node.Send(0, answer)
	})
}

// Reads implements [node.Reader].
func (n *sqlNode) Reads(pkt node.Packet) bool {
	q, err := n.query(pkt.Payload)
	return err == nil && !q.writes()
}

// answer runs a query in the transaction of its process, or by itself in a durable one.
func (n *sqlNode) answer(ctx context.Context, p node.Process, key string, q query) (value.Value, error) {
	switch {
	case key == "":
		return n.run(ctx, byProcess{n, p}, q)
	case q.writes() && n.keeps:
		return n.runOnce(ctx, key, q)
	case q.writes():
		return n.runAlone(ctx, q)
	}
	return n.run(ctx, alone{n}, q)
}

// A query is what a payload asks for.
type query struct {
	script *script
	rows   [][]value.Value // arguments of the last statement, for each time that it runs
}

// query reads a payload.
func (n *sqlNode) query(payload value.Value) (q query, err error) {
	var args value.Value
	text, ok := payload.AsString()
	if !ok && payload.Kind() == value.KindList && payload.Len() >= 1 && payload.Len() <= 2 {
		text, ok = payload.At(0).AsString()
		args = payload.At(1)
	}
	if !ok {
		return q, badQuery("want a statement, or a list of a statement and its arguments, got %s", what(payload))
	}
	many := args.Kind() == value.KindList && maps(args)
	if q.script, err = n.pool.texts.get(text, args.Kind() == value.KindMap || many && args.Len() > 0); err != nil {
		return q, badQuery("%w", err)
	}
	// A list of maps by position is a list of JSON. An empty list is for none.
	if many && (q.script.positions || !q.script.names || args.Len() == 0 && !q.script.colons) {
		many = false
		if q.script, err = n.pool.texts.get(text, false); err != nil {
			return q, badQuery("%w", err)
		}
	}
	statements := q.script.statements
	if len(statements) == 0 {
		return q, badQuery("the statement is empty")
	}
	st := statements[len(statements)-1]
	if !args.IsNull() && args.Len() > 0 && len(statements) > 1 {
		return q, badQuery("arguments need a single statement, got %d", len(statements))
	}
	switch {
	case many:
		q.rows = make([][]value.Value, 0, args.Len())
		for i, e := range args.Elems() {
			row, err := byName(st, e)
			if err != nil {
				return q, badQuery("argument %d: %w", i, err)
			}
			q.rows = append(q.rows, row)
		}
	case args.Kind() == value.KindMap:
		if q.script.positions {
			return q, badQuery("the statement has arguments by position, so they must be a list, got a map")
		}
		row, err := byName(st, args)
		if err != nil {
			return q, badQuery("%w", err)
		}
		q.rows = [][]value.Value{row}
	case args.IsNull(), args.Kind() == value.KindList:
		row, err := byPosition(q.script, st, args)
		if err != nil {
			return q, err
		}
		q.rows = [][]value.Value{row}
	default:
		return q, badQuery("the arguments must be a list, a map or a list of maps, got %s", what(args))
	}
	return q, nil
}

// maps reports whether all elements are maps.
func maps(list value.Value) bool {
	for _, e := range list.Elems() {
		if e.Kind() != value.KindMap {
			return false
		}
	}
	return true
}

func byName(st *statement, args value.Value) ([]value.Value, error) {
	row := make([]value.Value, len(st.binds))
	for i, b := range st.binds {
		arg, ok := args.Get(b.name)
		if !ok {
			return nil, fmt.Errorf("the statement names %q, which the arguments do not have", b.name)
		}
		row[i] = arg
	}
	return row, nil
}

func byPosition(s *script, st *statement, args value.Value) ([]value.Value, error) {
	if args.Len() != s.most && (s.positions || !s.names) {
		return nil, badQuery("the statement has %d arguments, got %d", s.most, args.Len())
	}
	if !s.positions && args.Len() > 0 {
		return nil, badQuery("the statement names its arguments, so they must be a map, got a list")
	}
	row := make([]value.Value, len(st.binds))
	for i, b := range st.binds {
		row[i] = args.At(b.index)
	}
	return row, nil
}

// what describes a payload without its contents.
func what(v value.Value) string {
	switch v.Kind() {
	case value.KindList:
		return fmt.Sprintf("a list of %d", v.Len())
	case value.KindNull:
		return "null"
	case value.KindInt, value.KindUint, value.KindError:
		return "an " + v.Kind().String()
	}
	return "a " + v.Kind().String()
}

// run runs the statements of a query, and returns what the last one gives.
func (n *sqlNode) run(ctx context.Context, in within, q query) (value.Value, error) {
	last := len(q.script.statements) - 1
	for i, st := range q.script.statements {
		rows := [][]value.Value{nil}
		if i == last {
			rows = q.rows
		}
		var r result
		if err := n.runOne(ctx, in, st, rows, &r); err != nil {
			if last > 0 {
				err = ofStatement(err, i+1)
			}
			return value.Null(), err
		}
		if i == last {
			return r.value(), nil
		}
	}
	return value.Null(), nil
}

// ofStatement says which statement of several has failed.
func ofStatement(err error, i int) error {
	e := *node.Describe(err)
	e.Err = fmt.Errorf("statement %d: %w", i, e.Err)
	return &e
}

func (n *sqlNode) runOne(ctx context.Context, in within, st *statement, rows [][]value.Value, to *result) error {
	if len(rows) == 0 {
		to.isRows = st.rows
		return nil
	}
	ctx, stop := withTimeout(ctx, n.clock, n.timeout)
	defer stop()
	err := in.run(ctx, st, rows, to)
	if err != nil {
		return n.missed(st, err, n.pool.failed(ctx, err))
	}
	return nil
}

// A within says what statements run in.
type within interface {
	run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error
}

// byProcess is the transaction of a process, which begins when one is needed.
type byProcess struct {
	*sqlNode
	p node.Process
}

func (in byProcess) run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	needs := st.effect == writes || in.isolation != "" && st.effect == reads
	if t := in.pool.find(in.p, in.ref, needs); t != nil && (needs || t.begun.Load()) {
		return t.run(ctx, st, rows, in.isolation, to)
	}
	return in.pool.run(ctx, st, rows, to)
}

// alone runs each statement by itself.
type alone struct{ *sqlNode }

func (in alone) run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	return in.pool.run(ctx, st, rows, to)
}

// byPacket is a transaction for one packet.
type byPacket struct {
	*transaction
	isolation string
}

func (in byPacket) run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	return in.transaction.run(ctx, st, rows, in.isolation, to)
}

// A result is what a statement gives.
type result struct {
	isRows   bool
	rows     []value.Value
	affected int64
	lastID   value.Value
}

func (r *result) value() value.Value {
	if r.isRows {
		return value.List(r.rows...)
	}
	return value.UniqueMap([]value.Field{{Name: "affected", Value: value.Int(r.affected)}, {Name: "last_id", Value: r.lastID}})
}
