package data

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A mysqlDriver connects to a database of MySQL or MariaDB.
type mysqlDriver struct{ connector driver.Connector }

func newMySQL(source string, timeout time.Duration) (dbDriver, error) {
	config, err := mysql.ParseDSN(source)
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{} // errors are returned, too
	config.ClientFoundRows = true      // as other databases count
	config.MultiStatements, config.InterpolateParams, config.AllowAllFiles = false, false, false
	if config.Params == nil {
		config.Params = make(map[string]string)
	}
	if _, ok := config.Params["time_zone"]; !ok {
		config.Params["time_zone"] = "'+00:00'"
	}
	if config.Timeout == 0 {
		config.Timeout = timeout
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return &mysqlDriver{connector}, nil
}

func (d *mysqlDriver) syntax() syntax { return syntax{backslashes: true, hashes: true} }

func (d *mysqlDriver) limits() (conns, transactions int) { return 0, 0 }

// Errors of the server that the code knows, by number.
const (
	mysqlAccess        = 1045
	mysqlAccessDB      = 1044
	mysqlTooMany       = 1040
	mysqlShutdown      = 1053
	mysqlDiskFull      = 1021
	mysqlTableFull     = 1114 // also of InnoDB whose disk is full
	mysqlDuplicate     = 1062
	mysqlDuplicateKey  = 1586
	mysqlLockTimeout   = 1205
	mysqlDeadlock      = 1213
	mysqlNoParent      = 1452
	mysqlHasChildren   = 1451
	mysqlNull          = 1048
	mysqlNoDefault     = 1364
	mysqlCheck         = 3819
	mariaCheck         = 4025
	mysqlTime          = 3024
	mariaTime          = 1969
	mysqlKilled        = 1317
	mysqlNotPrepared   = 1295 // a statement that cannot be prepared
	mysqlChangedRecord = 1020
	mysqlNoSavepoint   = 1305 // or no function
	mysqlNoDatabase    = 1049
	mysqlNoTable       = 1146
	mysqlNoColumn      = 1054
	mysqlSyntax        = 1064
)

func (d *mysqlDriver) connect(ctx context.Context) (conn, error) {
	made, err := d.connector.Connect(ctx)
	var server *mysql.MySQLError
	switch {
	case err == nil:
		return &mysqlConn{conn: made.(mysqlLibrary)}, nil
	case !errors.As(err, &server):
		return nil, &unreachableError{err}
	case server.Number == mysqlAccess || server.Number == mysqlAccessDB:
		return nil, &fatalError{server}
	}
	return nil, server
}

func (d *mysqlDriver) lacks(err error) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) && slices.Contains([]uint16{mysqlNoDatabase, mysqlNoTable, mysqlNoColumn, mysqlSyntax, mysqlNoSavepoint}, server.Number)
}

func (d *mysqlDriver) describe(err error) *node.Error {
	var server *mysql.MySQLError
	if !errors.As(err, &server) {
		return failure(err, http.StatusServiceUnavailable, codeConnection, "")
	}
	status, code := 0, ""
	switch server.Number {
	case mysqlDuplicate, mysqlDuplicateKey:
		status, code = http.StatusConflict, codeUnique
	case mysqlNoParent, mysqlHasChildren:
		status, code = http.StatusConflict, codeForeign
	case mysqlNull, mysqlNoDefault:
		status, code = http.StatusUnprocessableEntity, codeNotNull
	case mysqlCheck, mariaCheck:
		status, code = http.StatusUnprocessableEntity, codeCheck
	case mysqlDeadlock, mysqlChangedRecord:
		status, code = http.StatusServiceUnavailable, codeConflict
	case mysqlLockTimeout, mysqlTooMany:
		status, code = http.StatusServiceUnavailable, codeBusy
	case mysqlTime, mariaTime, mysqlKilled:
		status, code = http.StatusGatewayTimeout, codeTimeout
	case mysqlDiskFull, mysqlTableFull:
		status, code = http.StatusServiceUnavailable, codeFull
	case mysqlShutdown:
		status, code = http.StatusServiceUnavailable, codeConnection
	}
	return failure(err, status, code, string(server.SQLState[:]))
}

// A mysqlLibrary is a connection of the library.
type mysqlLibrary interface {
	driver.Conn
	driver.Pinger
	driver.Validator
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.SessionResetter
}

// A mysqlConn is one connection.
type mysqlConn struct {
	conn       mysqlLibrary
	now        state
	isolation  string // of the transaction
	statements lru[string, *mysqlStatement]
	args       []driver.NamedValue
	dest       []driver.Value
}

// A mysqlStatement is a prepared statement; without a Stmt it cannot be prepared.
type mysqlStatement struct {
	driver.Stmt
	query driver.StmtQueryContext
	exec  driver.StmtExecContext
}

func (c *mysqlConn) state() state {
	if !c.conn.IsValid() {
		return stateLost
	}
	return c.now
}

func (c *mysqlConn) ping(ctx context.Context) error { return c.conn.Ping(ctx) }

// close drops the error: nothing is under way.
func (c *mysqlConn) close() { c.conn.Close() }

func (c *mysqlConn) begin(ctx context.Context, isolation string) error {
	c.isolation = isolation
	if isolation != "" && isolation != "default" {
		if err := c.plain(ctx, "SET TRANSACTION ISOLATION LEVEL "+strings.ToUpper(isolation)); err != nil {
			return err
		}
	}
	if err := c.plain(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	c.now = stateOpen
	return nil
}

func (c *mysqlConn) commit(ctx context.Context) error {
	if err := c.plain(ctx, "COMMIT"); err != nil {
		c.now = stateLost
		return err
	}
	c.now = stateIdle
	return nil
}

func (c *mysqlConn) rollback(ctx context.Context) error {
	if err := c.plain(ctx, "ROLLBACK"); err != nil {
		c.now = stateLost
		return err
	}
	c.now = stateIdle
	return nil
}

// plain runs a statement without arguments and results.
func (c *mysqlConn) plain(ctx context.Context, text string) error {
	_, err := c.conn.ExecContext(ctx, text, nil)
	return err
}

func (c *mysqlConn) run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	inside := c.now == stateOpen
	many := inside && len(rows) > 1
	if many {
		if err := c.plain(ctx, "SAVEPOINT uniflow_rows"); err != nil {
			return err
		}
	}
	err := c.runRows(ctx, st, rows, to)
	var server *mysql.MySQLError
	switch {
	case err == nil && many && !st.ddl:
		return c.plain(ctx, "RELEASE SAVEPOINT uniflow_rows")
	case err == nil && !st.ddl:
		return nil
	case c.now == stateOpen && (st.ddl || errors.As(err, &server)):
		c.now = c.after(ctx)
	}
	if st.ddl && c.now == stateIdle && inside {
		// The server has committed; what follows belongs to the process, too.
		if e := c.begin(context.WithoutCancel(ctx), c.isolation); e != nil {
			c.now = stateLost
		}
		return err
	}
	if err != nil && many && c.state() == stateOpen {
		if c.plain(context.WithoutCancel(ctx), "ROLLBACK TO SAVEPOINT uniflow_rows") != nil {
			c.now = stateLost
		}
	}
	return err
}

// after returns the state after an error. Some end the transaction, by the version and
// the settings of the server: a deadlock, a row that another transaction has changed, a
// wait for a lock. Outside of a transaction no savepoint is kept.
func (c *mysqlConn) after(ctx context.Context) state {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	err := c.plain(ctx, "SAVEPOINT uniflow_open")
	if err == nil {
		err = c.plain(ctx, "RELEASE SAVEPOINT uniflow_open")
	}
	var server *mysql.MySQLError
	switch {
	case err == nil:
		return stateOpen
	case errors.As(err, &server) && server.Number == mysqlNoSavepoint:
		return stateIdle
	}
	return stateLost
}

func (c *mysqlConn) runRows(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	prepared, err := c.prepared(ctx, st.text)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if prepared.Stmt != nil && prepared.NumInput() != len(row) {
			return badQuery("the statement has %d arguments, got %d", prepared.NumInput(), len(row))
		}
		if err := c.bind(row); err != nil {
			return err
		}
		if st.rows {
			err = c.query(ctx, st, prepared, to)
		} else {
			err = c.exec(ctx, st, prepared, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepared returns a statement of the connection.
func (c *mysqlConn) prepared(ctx context.Context, text string) (*mysqlStatement, error) {
	if st, ok := c.statements.get(text); ok {
		return st, nil
	}
	st := new(mysqlStatement)
	made, err := c.conn.PrepareContext(ctx, text)
	var server *mysql.MySQLError
	switch {
	case err == nil:
		st = &mysqlStatement{made, made.(driver.StmtQueryContext), made.(driver.StmtExecContext)}
	case !errors.As(err, &server) || server.Number != mysqlNotPrepared:
		return nil, &unpreparedError{err}
	}
	c.statements.put(text, st, keptStatements, func(old *mysqlStatement) {
		if old.Stmt != nil {
			old.Close()
		}
	})
	return st, nil
}

// bind sets the arguments of the next call.
func (c *mysqlConn) bind(row []value.Value) error {
	c.args = c.args[:0]
	for i, v := range row {
		arg := driver.NamedValue{Ordinal: i + 1}
		switch v.Kind() {
		case value.KindNull:
		case value.KindBool:
			arg.Value, _ = v.AsBool()
		case value.KindInt:
			arg.Value, _ = v.AsInt()
		case value.KindUint:
			arg.Value, _ = v.AsUint()
		case value.KindFloat:
			arg.Value, _ = v.AsFloat()
		case value.KindBinary:
			b, _ := v.AsBinary()
			if b == nil {
				b = []byte{}
			}
			arg.Value = b
		case value.KindTime: // without a zone, which MariaDB refuses
			t, _ := v.AsTime()
			arg.Value = t.UTC().Format("2006-01-02 15:04:05.999999")
		default:
			s, ok := text(v)
			if !ok {
				return badQuery("argument %d cannot be written as JSON", i+1)
			}
			arg.Value = s
		}
		c.args = append(c.args, arg)
	}
	return nil
}

func (c *mysqlConn) exec(ctx context.Context, st *statement, prepared *mysqlStatement, to *result) (err error) {
	var res driver.Result
	if prepared.Stmt == nil {
		res, err = c.conn.ExecContext(ctx, st.text, c.args)
	} else {
		res, err = prepared.exec.ExecContext(ctx, c.args)
	}
	if err != nil || !st.counts {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	to.affected += n
	if st.inserts && n > 0 {
		if id, err := res.LastInsertId(); err == nil && id != 0 {
			to.lastID = value.Int(id)
		}
	}
	return nil
}

func (c *mysqlConn) query(ctx context.Context, st *statement, prepared *mysqlStatement, to *result) (err error) {
	var rows driver.Rows
	if prepared.Stmt == nil {
		rows, err = c.conn.QueryContext(ctx, st.text, c.args)
	} else {
		rows, err = prepared.query.QueryContext(ctx, c.args)
	}
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	columns := rows.Columns()
	if len(columns) == 0 {
		return nil
	}
	to.isRows = true
	named := rows.(driver.RowsColumnTypeDatabaseTypeName)
	types := make([]string, len(columns))
	for i := range columns {
		types[i] = named.ColumnTypeDatabaseTypeName(i)
	}
	maker := newRowMaker(columns)
	if cap(c.dest) < len(columns) {
		c.dest = make([]driver.Value, len(columns))
	}
	dest := c.dest[:len(columns)]
	var texts arena
	for {
		if err := rows.Next(dest); err != nil {
			clear(dest)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		fields := maker.row()
		for i := range dest {
			fields[maker.field(i)].Value = mysqlValue(dest[i], types[i], &texts)
		}
		to.rows = append(to.rows, value.UniqueMap(fields))
	}
}

// mysqlValue makes a value of a column. The bytes of v are not kept.
func mysqlValue(v driver.Value, typ string, texts *arena) value.Value {
	switch v := v.(type) {
	case nil:
		return value.Null()
	case int64:
		return value.Int(v)
	case uint64:
		return value.Uint(v)
	case float32:
		return shortFloat(v)
	case float64:
		return value.Float(v)
	case time.Time:
		return value.Time(v)
	case string:
		return mysqlValue([]byte(v), typ, texts)
	case []byte:
		switch typ {
		case "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "BINARY", "VARBINARY", "GEOMETRY", "VECTOR":
			return value.Binary(append([]byte{}, v...))
		case "JSON":
			return parseJSON(v)
		case "DATETIME", "TIMESTAMP":
			t, _ := parseTime(string(v))
			return t
		case "BIT":
			bits := uint64(0)
			for _, b := range v {
				bits = bits<<8 | uint64(b)
			}
			return value.Uint(bits)
		case "UNSIGNED BIGINT", "BIGINT", "INT", "UNSIGNED INT", "SMALLINT", "TINYINT", "MEDIUMINT", "YEAR": // of a statement that cannot be prepared
			if n, ok := parseInteger(string(v)); ok {
				return n
			}
		}
		return texts.string(v)
	}
	return value.String(fmt.Sprint(v))
}
