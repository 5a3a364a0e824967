package data

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A postgresDriver connects to a database of PostgreSQL.
type postgresDriver struct {
	config *pgconn.Config
	cancel time.Duration // how long the server has to end a statement that is cancelled
	mu     struct {
		sync.Mutex
		elems map[uint32]uint32 // of array types that the database has defined; 0 for other types
	}
}

func newPostgres(source string, cancel time.Duration) (dbDriver, error) {
	config, err := pgconn.ParseConfig(source)
	if err != nil {
		return nil, err
	}
	if _, ok := config.RuntimeParams["application_name"]; !ok {
		config.RuntimeParams["application_name"] = "uniflow"
	}
	config.RuntimeParams["datestyle"] = "ISO"
	// To cancel a statement ends it on the server, too, and the connection stays.
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancel}
	}
	d := &postgresDriver{config: config, cancel: cancel}
	d.mu.elems = make(map[uint32]uint32)
	return d, nil
}

// cancelGrace is how long the server has to end a statement that is cancelled, before
// the connection is closed. Sources and sinks have to end soon after a grace, also if the
// network swallows packets.
const cancelGrace, streamCancelGrace = time.Second, 50 * time.Millisecond

func (d *postgresDriver) syntax() syntax { return syntax{numbered: true, dollars: true} }

func (d *postgresDriver) limits() (conns, transactions int) { return 0, 0 }

func (d *postgresDriver) connect(ctx context.Context) (conn, error) {
	c, err := pgconn.ConnectConfig(ctx, d.config)
	if err == nil {
		return &postgresConn{driver: d, conn: c, statements: newStatements[*postgresStatement]()}, nil
	}
	var server *pgconn.PgError
	var connecting *pgconn.ConnectError
	switch {
	case errors.As(err, &server):
		if strings.HasPrefix(server.Code, "28") { // who may connect
			return nil, &fatalError{server}
		}
		return nil, server
	case errors.As(err, &connecting):
		err = connecting.Unwrap() // without the user and the database, which belong to the source
	}
	return nil, &unreachableError{err}
}

// An unreachableError is the error of a connection that could not be made, or that broke.
type unreachableError struct{ err error }

// Error returns what is wrong, once: the client tries a host with and without TLS, and has a
// line for each attempt.
func (e *unreachableError) Error() string {
	return strings.Join(slices.Compact(strings.Split(e.err.Error(), "\n")), "; ")
}

func (e *unreachableError) Unwrap() error { return e.err }

func (d *postgresDriver) lacks(err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	switch server.Code[:min(2, len(server.Code))] {
	case "42", "3D", "3F": // syntax and names, databases, schemas
		return true
	}
	return false
}

func (d *postgresDriver) describe(err error) *node.Error {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return failure(err, codeConnection, "")
	}
	code, ok := postgresCodes[server.Code]
	if !ok {
		code = postgresCodes[server.Code[:min(2, len(server.Code))]]
	}
	return failure(server, code, server.Code)
}

// postgresCodes are the codes of errors by their SQLSTATE, or by its class.
var postgresCodes = map[string]string{
	"23505": codeUnique,
	"23P01": codeUnique, // exclusion
	"23503": codeForeign,
	"23001": codeForeign, // restrict
	"23502": codeNotNull,
	"23":    codeCheck,
	"40":    codeConflict,
	"55P03": codeBusy, // a lock is not free
	"53300": codeBusy, // too many connections
	"53100": codeFull,
	"57014": codeTimeout, // the statement was cancelled
	"57":    codeConnection,
	"08":    codeConnection,
}

// array returns the type of the elements of an array type, 0 for any other type.
func (d *postgresDriver) array(oid uint32) (elem uint32, known bool) {
	if elem, ok := arrays[oid]; ok || oid < firstOwnType {
		return elem, true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	elem, known = d.mu.elems[oid]
	return elem, known
}

// firstOwnType is the lowest number of types that are not part of PostgreSQL.
const firstOwnType = 16384

// arrays are the types of the elements of array types.
var arrays = map[uint32]uint32{
	1000: typeBool, 1005: typeInt2, 1007: typeInt4, 1016: typeInt8,
	1021: typeFloat4, 1022: typeFloat8, 1231: typeNumeric,
	1009: typeText, 1015: typeVarchar, 1014: typeBPChar, 1003: typeName,
	2951: typeUUID, 1182: typeDate, 1183: typeTime, 1187: typeInterval,
	1115: typeTimestamp, 1185: typeTimestamptz,
	199: typeJSON, 3807: typeJSONB, 1001: typeBytea,
	1041: typeInet, 651: typeCIDR, 1028: typeOID,
}

// A postgresConn is one connection.
type postgresConn struct {
	driver     *postgresDriver
	conn       *pgconn.PgConn
	statements statements[*postgresStatement]
	serial     int    // of the last prepared statement
	pending    string // the statement that begins the transaction, sent with the next one
	marked     bool   // the savepoint is set
	failed     bool   // the transaction cannot be used any more
	args       [][]byte
	formats    []int16
	buf        []byte
}

// A postgresStatement is a prepared statement.
type postgresStatement struct {
	*pgconn.StatementDescription
	formats []int16 // of the columns
	columns []string
	elems   []uint32 // of columns that are arrays
	maker   rowMaker // to copy
}

func (c *postgresConn) state() state {
	switch {
	case c.conn.IsClosed() || c.failed || c.conn.IsBusy():
		return stateLost
	case c.pending != "" || c.conn.TxStatus() != 'I':
		return stateOpen
	}
	return stateIdle
}

func (c *postgresConn) ping(ctx context.Context) error { return c.conn.Ping(ctx) }

func (c *postgresConn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), c.driver.cancel)
	defer cancel()
	_ = c.conn.Close(ctx) // its error is of no use: nothing is under way
}

func (c *postgresConn) begin(_ context.Context, isolation string) error {
	c.pending, c.marked, c.failed = "BEGIN", false, false
	if isolation != "" && isolation != "default" {
		c.pending += " ISOLATION LEVEL " + strings.ToUpper(isolation)
	}
	return nil
}

func (c *postgresConn) commit(ctx context.Context) error {
	if c.pending != "" {
		c.pending = ""
		return nil
	}
	results, err := c.conn.Exec(ctx, "COMMIT").ReadAll()
	if err != nil {
		return err
	}
	if tag := results[0].CommandTag.String(); tag != "COMMIT" {
		return errors.New("the database has rolled back")
	}
	return nil
}

func (c *postgresConn) rollback(ctx context.Context) error {
	if c.pending != "" {
		c.pending = ""
		return nil
	}
	_, err := c.conn.Exec(ctx, "ROLLBACK").ReadAll()
	return err
}

// The savepoint that a statement in a transaction runs in.
const (
	setMark    = "SAVEPOINT uniflow"
	dropMark   = "RELEASE SAVEPOINT uniflow"
	returnMark = "ROLLBACK TO SAVEPOINT uniflow; RELEASE SAVEPOINT uniflow"
)

func (c *postgresConn) run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	before, begin := len(to.rows), c.pending
	for retry := 0; ; retry++ {
		err := c.attempt(ctx, st, rows, to)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && c.conn.IsClosed() { // not even the cancel was answered
			return &unreachableError{err}
		}
		if err := c.recover(ctx); err != nil {
			c.failed = true
		}
		if retry > 0 || !stale(err) || c.state() == stateLost {
			return err
		}
		if begin != "" { // the transaction began with this statement
			if c.rollback(ctx) != nil {
				return err
			}
			c.pending = begin
		}
		c.statements.Remove(st.text) // its table has changed since it was prepared
		to.rows, to.affected = to.rows[:before], 0
	}
}

// stale reports whether a statement has to be prepared again.
func stale(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "26000" || server.Code == "0A000" && strings.Contains(server.Message, "cached plan"))
}

// recover undoes a statement that failed in a transaction. A transaction that begins
// with it is rolled back by the caller.
func (c *postgresConn) recover(ctx context.Context) error {
	marked := c.marked
	c.marked = false
	if !marked || c.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	_, err := c.conn.Exec(ctx, returnMark).ReadAll()
	return err
}

func (c *postgresConn) attempt(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	p, err := c.prepared(ctx, st.text)
	if err != nil {
		return err
	}
	if len(rows) > 0 && len(p.ParamOIDs) != len(st.binds) {
		return badQuery("the statement has %d arguments, got %d", len(p.ParamOIDs), len(st.binds))
	}
	if c.pending == "" && c.conn.TxStatus() == 'I' && len(rows) == 1 {
		if err := c.bind(p, rows[0]); err != nil {
			return err
		}
		return c.read(c.conn.ExecStatement(ctx, p.StatementDescription, c.args, c.formats, p.formats), p, to)
	}
	return c.pipeline(ctx, p, rows, to)
}

// pipeline runs a statement in a transaction, in one round trip.
func (c *postgresConn) pipeline(ctx context.Context, p *postgresStatement, rows [][]value.Value, to *result) (err error) {
	inside := c.pending == "" && c.conn.TxStatus() == 'T'
	first := 0 // results before the results of the statement
	pl := c.conn.StartPipeline(ctx)
	defer func() {
		if e := pl.Close(); err == nil {
			err = e
		}
	}()
	switch {
	case c.pending != "":
		pl.SendQueryParams(c.pending, nil, nil, nil, nil)
		c.pending, first = "", 1
	case inside && !c.marked:
		pl.SendQueryParams(setMark, nil, nil, nil, nil)
		first = 1
	}
	c.marked = inside
	for done := 0; done < len(rows); {
		batch := rows[done:min(done+pipelined, len(rows))]
		for i, row := range batch {
			if err := c.bind(p, row); err != nil {
				_ = pl.Sync()
				return fmt.Errorf("row %d: %w", done+i, err)
			}
			pl.SendQueryStatement(p.StatementDescription, c.args, c.formats, p.formats)
		}
		done += len(batch)
		if done == len(rows) && inside {
			pl.SendQueryParams(dropMark, nil, nil, nil, nil)
		}
		if err := pl.Sync(); err != nil {
			return err
		}
		for range first {
			if err := finish(pl); err != nil {
				return err
			}
		}
		first = 0
		for range batch {
			r, err := pl.GetResults()
			if err != nil {
				return err
			}
			rr, ok := r.(*pgconn.ResultReader)
			if !ok {
				return fmt.Errorf("the server sent %T in place of a result", r)
			}
			if err := c.read(rr, p, to); err != nil {
				return err
			}
		}
		if done == len(rows) && inside {
			if err := finish(pl); err != nil {
				return err
			}
			c.marked = false
		}
		if _, err := pl.GetResults(); err != nil { // of the Sync
			return err
		}
	}
	return nil
}

// pipelined is the number of rows that are sent before their results are read.
const pipelined = 256

// finish reads a result that is of no interest.
func finish(pl *pgconn.Pipeline) error {
	r, err := pl.GetResults()
	if err != nil {
		return err
	}
	if rr, ok := r.(*pgconn.ResultReader); ok {
		_, err = rr.Close()
	}
	return err
}

// prepared returns a statement of the connection.
func (c *postgresConn) prepared(ctx context.Context, text string) (*postgresStatement, error) {
	if p, ok := c.statements.Get(text); ok {
		return p, nil
	}
	c.serial++
	name := "uniflow_" + strconv.Itoa(c.serial)
	var sd *pgconn.StatementDescription
	var err error
	if c.pending == "" && c.conn.TxStatus() == 'T' {
		sd, err = c.prepareMarked(ctx, name, text)
	} else {
		sd, err = c.conn.Prepare(ctx, name, text, nil)
	}
	if err != nil {
		return nil, &unpreparedError{err}
	}
	p := &postgresStatement{StatementDescription: sd, formats: make([]int16, len(sd.Fields)), elems: make([]uint32, len(sd.Fields))}
	for i, f := range sd.Fields {
		p.columns = append(p.columns, f.Name)
		if binaryColumns[f.DataTypeOID] {
			p.formats[i] = formatBinary
		}
		elem, known := c.driver.array(f.DataTypeOID)
		if !known {
			if elem, err = c.lookUp(ctx, f.DataTypeOID); err != nil {
				return nil, err
			}
		}
		p.elems[i] = elem
	}
	p.maker = newRowMaker(p.columns)
	if old, evicted := c.statements.put(text, p); evicted {
		// If this fails, so does the statement that it is for.
		_ = c.conn.Deallocate(ctx, old.Name)
	}
	return p, nil
}

// prepareMarked prepares a statement in a transaction, which an error would spoil.
func (c *postgresConn) prepareMarked(ctx context.Context, name, text string) (sd *pgconn.StatementDescription, err error) {
	pl := c.conn.StartPipeline(ctx)
	defer func() {
		if e := pl.Close(); err == nil {
			err = e
		}
	}()
	pl.SendQueryParams(setMark, nil, nil, nil, nil)
	pl.SendPrepare(name, text, nil)
	if err := pl.Sync(); err != nil {
		return nil, err
	}
	if err := finish(pl); err != nil {
		return nil, err
	}
	c.marked = true
	r, err := pl.GetResults()
	if err != nil {
		return nil, err
	}
	sd, ok := r.(*pgconn.StatementDescription)
	if !ok {
		return nil, fmt.Errorf("the server sent %T in place of a description", r)
	}
	sd.Name = name           // which the library does not do in a pipeline
	_, err = pl.GetResults() // of the Sync
	return sd, err
}

// lookUp asks for the type of the elements of a type that may be an array.
func (c *postgresConn) lookUp(ctx context.Context, oid uint32) (uint32, error) {
	r := c.conn.ExecParams(ctx, "SELECT typelem FROM pg_catalog.pg_type WHERE oid = $1 AND typcategory = 'A'",
		[][]byte{strconv.AppendUint(nil, uint64(oid), 10)}, []uint32{typeOID}, nil, nil).Read()
	if r.Err != nil {
		return 0, r.Err
	}
	elem := uint64(0)
	if len(r.Rows) == 1 {
		elem, _ = strconv.ParseUint(string(r.Rows[0][0]), 10, 32)
	}
	c.driver.mu.Lock()
	defer c.driver.mu.Unlock()
	c.driver.mu.elems[oid] = uint32(elem)
	return uint32(elem), nil
}

// read adds the rows of a result.
func (c *postgresConn) read(r *pgconn.ResultReader, p *postgresStatement, to *result) error {
	columns := p.columns
	maker := p.maker
	if len(columns) == 0 && len(r.FieldDescriptions()) > 0 {
		return errors.New("a statement whose columns are not known before it runs is not supported")
	}
	var texts arena
	for r.NextRow() {
		fields := maker.row()
		for i, data := range r.Values() {
			if data == nil {
				fields[maker.field(i)].Value = value.Null()
				continue
			}
			fields[maker.field(i)].Value = postgresValue(data, p.Fields[i].DataTypeOID, p.elems[i], &texts)
		}
		to.rows = append(to.rows, value.UniqueMap(fields))
	}
	tag, err := r.Close()
	if err != nil {
		return err
	}
	if len(columns) > 0 {
		to.isRows = true
		return nil
	}
	if tag.Insert() || tag.Update() || tag.Delete() || strings.HasPrefix(tag.String(), "MERGE") {
		to.affected += tag.RowsAffected()
	}
	return nil
}

// bind sets the arguments of the next call.
func (c *postgresConn) bind(p *postgresStatement, row []value.Value) error {
	c.args = slices.Grow(c.args[:0], len(row))
	c.formats = slices.Grow(c.formats[:0], len(row))
	c.buf = c.buf[:0]
	for i, v := range row {
		if v.IsNull() {
			c.args, c.formats = append(c.args, nil), append(c.formats, formatText)
			continue
		}
		oid := p.ParamOIDs[i]
		if b, ok := v.AsBinary(); ok && oid == typeBytea {
			if b == nil {
				b = []byte{} // nil is NULL
			}
			c.args, c.formats = append(c.args, b), append(c.formats, formatBinary)
			continue
		}
		start := len(c.buf)
		var err error
		if c.buf, err = appendArgument(c.buf, v, oid); err != nil {
			return badQuery("argument %d: %w", i+1, err)
		}
		if len(c.buf) == start {
			c.args = append(c.args, []byte{})
		} else {
			c.args = append(c.args, c.buf[start:len(c.buf):len(c.buf)])
		}
		c.formats = append(c.formats, formatText)
	}
	return nil
}
