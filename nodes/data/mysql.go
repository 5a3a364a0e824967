package data

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
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

// mysqlCodes are the codes of the errors of servers that a node knows, by their number.
var mysqlCodes = map[uint16]string{
	1062: codeUnique,     // duplicate entry
	1586: codeUnique,     // the same, with the name of the key
	1452: codeForeign,    // no parent row
	1451: codeForeign,    // the row has children
	1048: codeNotNull,    // NULL
	1364: codeNotNull,    // no default
	3819: codeCheck,      // of MySQL
	4025: codeCheck,      // of MariaDB
	1213: codeConflict,   // deadlock
	1020: codeConflict,   // another transaction has changed the row
	1205: codeBusy,       // a lock was waited for too long
	1040: codeBusy,       // too many connections
	3024: codeTimeout,    // of MySQL
	1969: codeTimeout,    // of MariaDB
	1317: codeTimeout,    // the statement was killed
	1021: codeFull,       // disk
	1114: codeFull,       // table, also of InnoDB whose disk is full
	1053: codeConnection, // shutdown
}

// mysqlLacks are the numbers of the errors of statements that name what is not there, or are
// wrong: a database, a table, a column, syntax, a function.
var mysqlLacks = []uint16{1049, 1146, 1054, 1064, mysqlNoSavepoint}

// The other errors that the code knows, by number.
const (
	mysqlAccess      = 1045
	mysqlAccessDB    = 1044
	mysqlNotPrepared = 1295 // a statement that cannot be prepared
	mysqlNoSavepoint = 1305 // or no function
	mysqlNoDefault   = 1364
	mysqlBadText     = 1366 // a text that the column's character set or type does not have
)

func (d *mysqlDriver) connect(ctx context.Context) (conn, error) {
	made, err := d.connector.Connect(ctx)
	var server *mysql.MySQLError
	switch {
	case err == nil:
		client := made.(mysqlClient)
		return &mysqlConn{library: newLibrary(client, d), client: client}, nil
	case !errors.As(err, &server):
		return nil, &unreachableError{err}
	case server.Number == mysqlAccess || server.Number == mysqlAccessDB:
		return nil, &fatalError{server}
	}
	return nil, server
}

func (d *mysqlDriver) lacks(err error) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) && slices.Contains(mysqlLacks, server.Number)
}

func (d *mysqlDriver) describe(err error) *node.Error {
	var server *mysql.MySQLError
	if !errors.As(err, &server) {
		return failure(err, codeConnection, "")
	}
	return failure(err, mysqlCodes[server.Number], string(server.SQLState[:]))
}

// A mysqlClient is a connection of the client.
type mysqlClient interface {
	libraryConn
	driver.Pinger
	driver.Validator
}

// A mysqlConn is one connection.
type mysqlConn struct {
	*library
	client    mysqlClient // of the library
	now       state
	isolation string // of the transaction
}

func (c *mysqlConn) state() state {
	if !c.client.IsValid() {
		return stateLost
	}
	return c.now
}

func (c *mysqlConn) ping(ctx context.Context) error { return c.client.Ping(ctx) }

// close drops the error: nothing is under way.
func (c *mysqlConn) close() { c.client.Close() }

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

func (c *mysqlConn) commit(ctx context.Context) error { return c.end(ctx, "COMMIT") }

func (c *mysqlConn) rollback(ctx context.Context) error { return c.end(ctx, "ROLLBACK") }

func (c *mysqlConn) end(ctx context.Context, text string) error {
	err := c.plain(ctx, text)
	if c.now = stateIdle; err != nil {
		c.now = stateLost
	}
	return err
}

// plain runs a statement without arguments and results.
func (c *mysqlConn) plain(ctx context.Context, text string) error {
	_, err := c.client.ExecContext(ctx, text, nil)
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
	err := c.library.run(ctx, st, rows, to)
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

// argument implements [dialect]. A time has no zone, which MariaDB refuses.
func (d *mysqlDriver) argument(v value.Value) (driver.Value, error) {
	if u, ok := v.AsUint(); ok {
		return u, nil
	}
	t, _ := v.AsTime()
	return t.UTC().Format("2006-01-02 15:04:05.999999"), nil
}

func (d *mysqlDriver) isID(id int64) bool { return id != 0 }

func (d *mysqlDriver) unprepared(err error) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) && server.Number == mysqlNotPrepared
}

// column implements [dialect].
func (d *mysqlDriver) column(v driver.Value, typ string, texts *arena) value.Value {
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
		return d.column([]byte(v), typ, texts)
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
