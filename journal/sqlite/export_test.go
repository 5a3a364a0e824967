package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/journal/internal/sqlstore"
)

// LimitPages keeps the file at its size, or lets it grow again.
func (s *Store) LimitPages(limit bool) error {
	s.write.Lock()
	defer s.write.Unlock()
	n := int64(1 << 30)
	if limit {
		var err error
		if n, err = s.pragma("page_count"); err != nil {
			return err
		}
	}
	return s.write.run("PRAGMA max_page_count = " + strconv.FormatInt(n, 10))
}

// Pragma returns a setting of the connection that writes.
func (s *Store) Pragma(name string) (any, error) {
	s.write.Lock()
	defer s.write.Unlock()
	return s.write.one("PRAGMA " + name)
}

// Migrate brings the tables to the last of some steps.
func (s *Store) Migrate(all []sqlstore.Step) error {
	s.write.Lock()
	defer s.write.Unlock()
	return s.transact(func() error { return s.migrate(all, false) })
}

// Version returns that of the tables.
func (s *Store) Version() (any, error) {
	s.write.Lock()
	defer s.write.Unlock()
	return s.write.one(s.statements.Version)
}

// Plan returns how SQLite executes a statement, a line a step.
func (s *Store) Plan(text string) (plan string, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	err = s.write.queryOnce(context.Background(), func(row []any) error {
		plan += fmt.Sprintln(row[3])
		return nil
	}, "EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))...)
	return plan, err
}

// RestartAt sets the pages of the log from which a commit waits for readers.
func (s *Store) RestartAt(pages int64) {
	s.write.Lock()
	defer s.write.Unlock()
	s.write.restart = pages
}

// LogPages returns how many pages the log has.
func (s *Store) LogPages() (int64, error) {
	s.write.Lock()
	defer s.write.Unlock()
	l, err := s.log("NOOP")
	return l.all, err
}
