package trail

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A clickHouse asks a server by its HTTP interface.
type clickHouse struct {
	url            *url.URL // without user and database
	user, password string
	database       string
	client         *http.Client
}

// newClickHouse reads --dsn. Its errors do not repeat what may be a password.
func newClickHouse(command, dsn string) (*clickHouse, error) {
	const hint = "write clickhouse://USER:PASSWORD@HOST:8123/DATABASE; ?secure=true is for TLS"
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, app.Usagef(command, hint, "--dsn is not a URL")
	}
	if u.Scheme != "clickhouse" || u.Hostname() == "" || strings.Contains(strings.Trim(u.Path, "/"), "/") {
		return nil, app.Usagef(command, hint, "--dsn must be clickhouse://HOST:PORT/DATABASE")
	}
	c := &clickHouse{client: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}, database: strings.Trim(u.Path, "/")}
	secure, port := false, "8123"
	for key, values := range u.Query() {
		if key != "secure" {
			return nil, app.Usagef(command, hint, "--dsn: secure is the only parameter")
		}
		if secure, err = strconv.ParseBool(values[0]); err != nil {
			return nil, app.Usagef(command, hint, "--dsn: secure is true or false")
		}
	}
	scheme := "http"
	if secure {
		scheme, port = "https", "8443"
	}
	switch u.Port() {
	case "":
	case "9000", "9440":
		return nil, app.Usagef(command, "the port of the HTTP interface is 8123, with TLS 8443", "--dsn: port %s is for the native protocol", u.Port())
	default:
		port = u.Port()
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	c.url = &url.URL{Scheme: scheme, Host: host + ":" + port, Path: "/"}
	if u.User != nil {
		c.user = u.User.Username()
		c.password, _ = u.User.Password() // empty if there is none
	}
	return c, nil
}

// maxAnswer bounds the answer of a server, in bytes.
const maxAnswer = 256 << 20

// A clickHouseAnswer is the rows of a statement, with numbers as json.Number.
type clickHouseAnswer struct {
	rows  [][]any
	stats query.Stats // events and bytes alone
}

// ask asks for the rows of a statement.
func (c *clickHouse) ask(ctx context.Context, sql string) (*clickHouseAnswer, error) {
	u := *c.url
	params := url.Values{
		"default_format": {"JSONCompact"}, "wait_end_of_query": {"1"},
		"output_format_json_quote_64bit_integers": {"0"},
	}
	if c.database != "" {
		params.Set("database", c.database)
	}
	u.RawQuery = params.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(sql))
	if err != nil {
		return nil, err
	}
	if c.user != "" {
		req.Header.Set("X-ClickHouse-User", c.user)
		req.Header.Set("X-ClickHouse-Key", c.password)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	err = errors.Join(err, resp.Body.Close())
	switch {
	case err != nil:
		return nil, fmt.Errorf("clickhouse: %w", err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("clickhouse: the answer is larger than %s", show.Bytes(maxAnswer))
	case resp.StatusCode != http.StatusOK:
		text, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		return nil, fmt.Errorf("clickhouse: %s: %s", resp.Status, text)
	}
	var answer struct {
		Data [][]any `json:"data"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&answer); err != nil {
		return nil, fmt.Errorf("clickhouse: the answer cannot be read: %w", err)
	}
	return &clickHouseAnswer{rows: answer.Data, stats: clickHouseStats(resp.Header.Get("X-ClickHouse-Summary"))}, nil
}

// unreachable is the error of a request that did not reach the server. The error of
// net/http has the URL with parameters that the user did not write.
func (c *clickHouse) unreachable(err error) error {
	if long := (*url.Error)(nil); errors.As(err, &long) {
		err = long.Err
	}
	err = fmt.Errorf("clickhouse at %s: %w", c.url.Host, err)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &app.ExitError{Code: app.ExitFailure, Err: err, Hint: "is a server there? --dsn has its host and the port of its HTTP interface: 8123, with ?secure=true 8443"}
}

// clickHouseStats reads how much the server has read.
func clickHouseStats(summary string) (s query.Stats) {
	var out struct {
		Rows  string `json:"read_rows"`
		Bytes string `json:"read_bytes"`
	}
	if json.Unmarshal([]byte(summary), &out) != nil {
		return s
	}
	// Malformed numbers count as 0, which means unknown.
	s.EventsRead, _ = strconv.ParseInt(out.Rows, 10, 64)
	s.BytesRead, _ = strconv.ParseInt(out.Bytes, 10, 64)
	return s
}

// schema returns the properties of the table, with their types.
func (c *clickHouse) schema(ctx context.Context) (event.Schema, error) {
	columns, err := c.ask(ctx, "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = 'events' ORDER BY position")
	if err != nil {
		return nil, err
	}
	if len(columns.rows) == 0 {
		return nil, &app.ExitError{
			Code: app.ExitFailure, Err: errors.New("clickhouse: the database has no table events"),
			Hint: "fill one with what uniflow trail export writes",
		}
	}
	var schema event.Schema
	for _, row := range columns.rows {
		if len(row) != 2 {
			return nil, errors.New("clickhouse: the columns of table events cannot be read")
		}
		name, kind := fmt.Sprint(row[0]), fmt.Sprint(row[1])
		if name == "user" || name == "time" || name == "event" {
			continue
		}
		property := event.Field{Name: name, Type: clickHouseType(kind)}
		if property.Type == event.String && strings.Contains(kind, "Nullable(") {
			return nil, nullableColumn(name, kind)
		}
		schema = append(schema, property)
	}
	return schema, nil
}

// nullableColumn refuses a Nullable column of strings: the statements take the empty
// string for a missing one, and NULL would change the answer.
func nullableColumn(name, kind string) error {
	plain := strings.Replace(kind, "Nullable("+inner(kind)+")", inner(kind), 1)
	if !plainName().MatchString(name) {
		name = "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
	}
	return &app.ExitError{
		Code: app.ExitFailure, Err: fmt.Errorf("clickhouse: column %s of table events is %s; a missing string must be empty there, not NULL", name, kind),
		Hint: fmt.Sprintf("ALTER TABLE events UPDATE %[1]s = '' WHERE %[1]s IS NULL SETTINGS mutations_sync = 1; ALTER TABLE events MODIFY COLUMN %[1]s %[2]s", name, plain),
	}
}

// plainName matches names that need no quotes in SQL.
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// inner returns the type within Nullable.
func inner(kind string) string {
	_, rest, _ := strings.Cut(kind, "Nullable(")
	depth := 0
	for i, c := range rest {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return rest[:i]
			}
		}
	}
	return rest
}

func clickHouseType(kind string) event.Type {
	for _, wrapper := range []string{"LowCardinality(", "Nullable("} {
		if inner, ok := strings.CutPrefix(kind, wrapper); ok {
			kind = strings.TrimSuffix(inner, ")")
		}
	}
	switch {
	case kind == "Bool":
		return event.Bool
	case strings.HasPrefix(kind, "Int"), strings.HasPrefix(kind, "UInt"):
		return event.Int
	case strings.HasPrefix(kind, "Float"), strings.HasPrefix(kind, "Decimal"):
		return event.Float
	}
	return event.String
}

// queryClickHouse asks a server, or explains with which SQL it would.
func (a commands) queryClickHouse(ctx context.Context, command string, o *queryOptions, q *query.Query) (answer *query.Answer, text string, err error) {
	c, err := newClickHouse(command, o.dsn)
	if err != nil {
		return nil, "", err
	}
	if o.explain == "plan" || o.explain == "duckdb" {
		return nil, "", app.Usagef(command, "leave --dsn text", "--explain %s is not about --dsn", o.explain)
	}
	defer c.client.CloseIdleConnections()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(o.timeout))
		defer cancel()
	}
	o.answeredBy = "; answered by ClickHouse at " + c.url.Host
	err = a.Interruptible(ctx, func(ctx context.Context) error {
		schema, err := a.tableSchema(ctx, o, c)
		if err != nil {
			return err
		}
		begun := time.Now()
		statement, err := dialect.Compile(dialect.ClickHouse, q, schema)
		if err != nil {
			return err
		}
		if o.explain != "" {
			text = a.explainSQL(statement)
			return nil
		}
		found, err := c.ask(ctx, statement.SQL)
		if err != nil {
			return err
		}
		if answer, err = statement.Answer(found.rows); err != nil {
			return fmt.Errorf("clickhouse: %w", err)
		}
		if answer.Cohort != nil {
			answer.Cohort.Found = nil // --ids needs a store
		}
		answer.Stats.EventsRead, answer.Stats.BytesRead = found.stats.EventsRead, found.stats.BytesRead
		answer.Stats.ElapsedUS = time.Since(begun).Microseconds()
		return nil
	})
	return answer, text, err
}

// tableSchema is the schema of the store, if one is named, else of the table. Before a
// query the table is checked in any case.
func (a commands) tableSchema(ctx context.Context, o *queryOptions, c *clickHouse) (event.Schema, error) {
	if o.db == "" || o.explain == "" {
		schema, err := c.schema(ctx)
		if err != nil || o.db == "" {
			return schema, err
		}
	}
	s, err := a.openTrail(o.db, trail.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return s.Schema(), s.Close()
}
