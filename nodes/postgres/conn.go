package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// readAhead is how much of what the server has sent is read together.
const readAhead = 64 << 10

// closeTimeout bounds saying goodbye.
const closeTimeout = 200 * time.Millisecond

// A link is one connection. One goroutine at a time reads from it.
type link struct{ *pgconn.PgConn }

// dial connects, with more parameters. Wrong credentials are a *stream.RefusedError.
func dial(ctx context.Context, config *pgconn.Config, params map[string]string) (*link, error) {
	config = config.Copy()
	for name, is := range params {
		config.RuntimeParams[name] = is
	}
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(bufio.NewReaderSize(r, readAhead), w)
	}
	// A deadline for writing would spoil a report to the server that is sent meanwhile.
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler { return readWatch{c} }
	c, err := pgconn.ConnectConfig(ctx, config)
	if err == nil {
		return &link{c}, nil
	}
	if server := (*pgconn.PgError)(nil); errors.As(err, &server) {
		switch {
		case strings.HasPrefix(server.Code, "28"), server.Code == "3D000": // who may connect; no such database
			return nil, &stream.RefusedError{Field: "source", Err: server}
		case server.Code == "42501" && params["replication"] != "":
			return nil, refused("source", "%w: the role needs the right to replicate: ALTER ROLE %s REPLICATION", server, ident(config.User))
		}
		return nil, server
	}
	if connecting := (*pgconn.ConnectError)(nil); errors.As(err, &connecting) {
		err = connecting.Unwrap() // without the user and the database, which belong to the source
	}
	// The client tries a host with and without TLS, and has a line for each attempt.
	return nil, errors.New(strings.Join(slices.Compact(strings.Split(err.Error(), "\n")), "; "))
}

func refused(field, format string, args ...any) error {
	return &stream.RefusedError{Field: field, Err: fmt.Errorf(format, args...)}
}

// A readWatch ends reading when a context ends.
type readWatch struct{ c *pgconn.PgConn }

func (w readWatch) HandleCancel(context.Context) { _ = w.c.Conn().SetReadDeadline(past) } // of a closed connection: reading has ended
func (w readWatch) HandleUnwatchAfterCancel()    { _ = w.c.Conn().SetReadDeadline(time.Time{}) }

// past is a deadline that is over: only what was read ahead can be read.
var past = time.Unix(1, 0)

// query runs one statement, and returns its rows as text; a NULL is empty.
func (l *link) query(ctx context.Context, format string, args ...any) ([][]string, error) {
	results, err := l.Exec(ctx, fmt.Sprintf(format, args...)).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, r := range results {
		for _, row := range r.Rows {
			texts := make([]string, len(row))
			for i, text := range row {
				texts[i] = string(text)
			}
			rows = append(rows, texts)
		}
	}
	return rows, nil
}

// endStream ends the stream, and waits until the server has read all before that: of a connection
// that is closed while the server sends, it may not read the last report.
func (l *link) endStream(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	l.Frontend().Send(&pgproto3.CopyDone{})
	if l.Frontend().Flush() != nil {
		return
	}
	for {
		m, err := l.ReceiveMessage(ctx)
		if err != nil {
			return // what is settled comes again then
		}
		if _, ok := m.(*pgproto3.ReadyForQuery); ok {
			return
		}
	}
}

// drop closes the connection.
func (l *link) drop() {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = l.Conn().SetWriteDeadline(time.Now().Add(closeTimeout)) // of a closed connection; else it ends a report that is sent
	_ = l.Close(ctx)                                            // its error is of no use: nothing is under way
}

// lost says that a connection is gone.
func lost(err error) error { return fmt.Errorf("%w: %w", stream.ErrLost, err) }

// code returns the SQLSTATE of an error of the server; empty for another one.
func code(err error) string {
	if server := (*pgconn.PgError)(nil); errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// A side is a connection for questions while another one is in use, made when it is needed. Any
// goroutine may use it.
type side struct {
	config *pgconn.Config
	mu     struct {
		sync.Mutex
		link *link
	}
}

// sideTimeout bounds a question.
const sideTimeout = 3 * time.Second

func (s *side) query(ctx context.Context, format string, args ...any) (rows [][]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for again := s.mu.link != nil; ; again = false {
		if s.mu.link == nil {
			if s.mu.link, err = dial(ctx, s.config, nil); err != nil {
				return nil, err
			}
		}
		rows, err = s.mu.link.query(ctx, format, args...)
		if !s.mu.link.IsClosed() {
			return rows, err
		}
		s.mu.link = nil
		if !again { // else it was closed while it was not used
			return nil, err
		}
	}
}

func (s *side) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.link.drop()
	s.mu.link = nil
}

// ident and literal quote a name and a text for SQL.
func ident(name string) string   { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// A table is the name of one.
type table struct{ schema, name string }

func parseTable(text string) table {
	if before, after, ok := strings.Cut(text, "."); ok {
		return table{before, after}
	}
	return table{"public", text}
}

func (t table) String() string { return t.schema + "." + t.name }
func (t table) quoted() string { return ident(t.schema) + "." + ident(t.name) }

func quoted(tables []table) string {
	var names []string
	for _, t := range tables {
		names = append(names, t.quoted())
	}
	return strings.Join(names, ", ")
}
