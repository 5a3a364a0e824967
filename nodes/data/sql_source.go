package data

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed sql_source.md
var sqlSourcePage string

func sourceDef() stream.Source {
	return stream.Source{
		Kind:    "sql_source",
		Summary: "Starts a process for each row of a table or query of SQLite, PostgreSQL or MySQL.",
		Page:    node.ReadPage(sqlSourcePage),
		Config: streamFields(
			schema.String("table").Doc("The table to read, such as `orders` or `shop.orders`, in the letters that the database has."),
			schema.String("query").Doc("A statement to read by, in place of `table`. It gives the rows after `:cursor`, in the order of the cursor."),
			schema.String("cursor").Required().Doc("The column that says how far the reading is. Its values are unique and grow."),
			schema.Any("start").Doc("The value of the cursor before the first row. A `table` begins at its first row without it; a `query` needs it."),
			schema.Int("rows").Default(1000).Range(1, 100000).Doc("How many rows of a table are asked for at a time."),
			schema.Duration("interval").Default("1s").Doc("How long the source waits when there are no more rows."),
			schema.String("track").Doc("A table of the database to keep the position in, which is made if it does not exist. It has a row for each node."),
			schema.Bool("ends").Default(false).Doc("Ends the source when there are no more rows."),
		),
		Traits: stream.Traits{Positions: true, Checkpoints: true, Raw: true},
		Open:   openSource,
		Ends:   func(c schema.Config) bool { return c.Bool("ends") },
	}
}

// A sourceReader reads rows by a cursor.
type sourceReader struct {
	pool   *pool
	name   string // of ids and of the row in track
	cursor string
	query  *statement // with the cursor
	first  *statement // without one; nil if there is none
	track  tableWriter
	every  time.Duration
	ends   bool

	at   value.Value // the cursor of the last row that was read; null before the first
	seq  int64
	page []value.Value // rows that were read and not returned
	read bool          // at is what is kept
}

// errNoCursor is the error of a row without the column.
var errNoCursor = errors.New("a row has no value in the column that cursor names")

func openSource(init *node.Init) (stream.Reader, error) {
	c := init.Config
	driver, err := openDriver(c, 30*time.Second, 30*time.Second, streamCancelGrace)
	if err != nil {
		return nil, err
	}
	kind, table := c.String("driver"), c.String("table")
	r := &sourceReader{pool: newPool(driver, 2, init.Clock, init.Log), name: table, cursor: c.String("cursor"), every: c.Duration("interval"), ends: c.Bool("ends")}
	if c.Has("start") {
		r.at = c.Value("start")
	}
	if track := c.String("track"); track != "" {
		if c.Group("checkpoint").Has("file") {
			return nil, c.Errorf("track", diag.CodeBadValue, "keeps the position that checkpoint.file keeps").WithHint("remove one of them")
		}
		r.track = tableWriter{driver: kind, table: quote(kind, track), mode: modeUpsert, keys: []string{"name"}, texts: map[string]*statement{}}
	}
	text := c.String("query")
	switch {
	case (text == "") == (table == ""):
		return nil, c.Errorf("table", diag.CodeBadValue, "or query says what to read: want one of them").WithHint("write table: orders")
	case text == "":
		column := quote(kind, r.cursor)
		end := fmt.Sprintf(" ORDER BY %s LIMIT %d", column, c.Int("rows"))
		text = "SELECT * FROM " + quote(kind, table) + " WHERE " + column + " > :cursor" + end
		if r.first, err = r.statement("SELECT * FROM " + quote(kind, table) + end); err != nil {
			return nil, c.Errorf("table", diag.CodeBadValue, "%v", err)
		}
	default:
		r.name = init.Node.String()
		if !c.Has("start") {
			return nil, c.Errorf("start", diag.CodeBadValue, "is missing: a query begins after it").WithHint("write a value below those of the cursor, such as 0")
		}
	}
	if r.query, err = r.statement(text); err != nil {
		return nil, c.Errorf("query", diag.CodeBadValue, "%v", err)
	}
	if len(r.query.binds) == 0 {
		return nil, c.Errorf("query", diag.CodeBadValue, "does not name :cursor").WithHint("write WHERE %s > :cursor", r.cursor)
	}
	for _, b := range r.query.binds {
		if b.name != "cursor" {
			return nil, c.Errorf("query", diag.CodeBadValue, "names %q; there is only :cursor", b.name)
		}
	}
	return r, nil
}

func (r *sourceReader) statement(text string) (*statement, error) {
	script, err := r.pool.texts.get(text, true)
	switch {
	case err != nil:
		return nil, err
	case len(script.statements) != 1 || script.positions:
		return nil, errors.New("want one statement, whose only argument is :cursor")
	case script.statements[0].effect != reads:
		return nil, errors.New("the statement changes something")
	}
	return script.statements[0], nil
}

// Connect implements [stream.Reader].
func (r *sourceReader) Connect(ctx context.Context, _ stream.Host) error {
	if r.track.table == "" {
		return r.pool.reach(ctx, "SELECT 1")
	}
	kept, err := r.tracked(ctx)
	if err != nil {
		return err
	}
	if !r.read { // else the rows that were read are with the runtime
		r.read = true
		if kept.IsNull() {
			return nil
		}
		text, _ := kept.AsString()
		r.at, err = cursorOf(text)
	}
	return err
}

// tracked makes the table of positions, and returns the position of the node.
func (r *sourceReader) tracked(ctx context.Context) (value.Value, error) {
	create := "CREATE TABLE IF NOT EXISTS " + r.track.table + " (name VARCHAR(250) PRIMARY KEY, position VARCHAR(2000))"
	if err := r.pool.reach(ctx, "SELECT name, position FROM "+r.track.table+" WHERE 1 = 0"); err != nil {
		var refused *stream.RefusedError
		if errors.As(err, &refused) || node.Describe(err).Code == codeConnection {
			return value.Null(), err
		}
		if _, err := r.run(ctx, &statement{text: create, effect: outside, ddl: true}, nil); err != nil {
			return value.Null(), fmt.Errorf("making the table of positions: %w", err)
		}
	}
	st, err := r.pool.texts.get("SELECT position FROM "+r.track.table+" WHERE name = :name", true)
	if err != nil {
		return value.Null(), err
	}
	rows, err := r.run(ctx, st.statements[0], []value.Value{value.String(r.name)})
	if err != nil || len(rows) == 0 {
		return value.Null(), err
	}
	kept, _ := rows[0].Get("position")
	return kept, nil
}

func (r *sourceReader) run(ctx context.Context, st *statement, args []value.Value) ([]value.Value, error) {
	var to result
	if err := r.pool.run(ctx, st, [][]value.Value{args}, &to); err != nil {
		return nil, lost(r.pool.failed(ctx, err))
	}
	return to.rows, nil
}

// Read asks for rows until there are some, with a pause in between.
func (r *sourceReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for len(r.page) == 0 {
		st, args := r.first, []value.Value(nil)
		if st == nil || !r.at.IsNull() {
			st, args = r.query, make([]value.Value, len(r.query.binds))
			for i := range args {
				args[i] = r.at
			}
		}
		rows, err := r.run(ctx, st, args)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !errors.Is(err, stream.ErrLost):
			return nil, fmt.Errorf("%w: %w", stream.ErrLost, err) // the table may come back
		case err != nil:
			return nil, err
		case len(rows) > 0:
			r.page = rows
			continue
		case r.ends:
			return nil, io.EOF
		}
		if err := (node.SystemClock{}).Sleep(ctx, r.every); err != nil {
			return nil, err
		}
	}
	var messages []stream.Message
	size := int64(0)
	for len(r.page) > 0 && len(messages) < max(room.Messages, 1) && (len(messages) == 0 || size < room.Bytes) {
		row := r.page[0]
		at, ok := row.Get(r.cursor)
		if !ok || at.IsNull() {
			return messages, errNoCursor
		}
		r.page, r.at = r.page[1:], at
		r.seq++
		size += int64(row.Size())
		messages = append(messages, stream.Message{Body: row, Offset: r.seq, Token: at})
	}
	return messages, nil
}

// Settle implements [stream.Reader].
func (r *sourceReader) Settle(ctx context.Context, s stream.Settled) error {
	if r.track.table == "" || len(s.Marks) == 0 {
		return nil
	}
	c, err := r.pool.acquire(ctx)
	if err != nil {
		return lost(r.pool.failed(ctx, err))
	}
	defer r.pool.release(c)
	position := value.String(positionOf(s.Marks[len(s.Marks)-1].Token.(value.Value)))
	if err := r.track.write(ctx, c, []string{"name", "position"}, [][]value.Value{{value.String(r.name), position}}); err != nil {
		return lost(r.pool.failed(ctx, err))
	}
	return nil
}

// Fields implements [stream.Reader].
func (r *sourceReader) Fields(m *stream.Message, b *value.MapBuilder) {
	at := m.Token.(value.Value)
	b.Set("id", value.String(r.name+":"+at.String()))
	b.Set("cursor", at)
}

// Position implements [stream.Resumer].
func (r *sourceReader) Position(m stream.Mark) (lane, position string) {
	return r.name, positionOf(m.Token.(value.Value))
}

// Resume implements [stream.Resumer].
func (r *sourceReader) Resume(positions map[string]string) (err error) {
	if text, ok := positions[r.name]; ok {
		r.at, err = cursorOf(text)
	}
	return err
}

// timePosition begins the position of a time, which JSON does not have.
const timePosition = "time "

func positionOf(at value.Value) string {
	if t, ok := at.AsTime(); ok {
		return timePosition + t.Format(time.RFC3339Nano)
	}
	data, _ := at.AppendJSON(nil) // a column has no value that this refuses
	return string(data)
}

func cursorOf(position string) (value.Value, error) {
	if text, ok := strings.CutPrefix(position, timePosition); ok {
		t, err := time.Parse(time.RFC3339Nano, text)
		return value.Time(t), err
	}
	v, err := value.ParseJSON([]byte(position))
	if err != nil {
		return v, fmt.Errorf("the position that is kept: %w", err)
	}
	return v, nil
}

// Close closes the connections.
func (r *sourceReader) Close(context.Context) error { return r.pool.Close() }
