// Package sqlstore is what the stores of a journal in SQL databases share: the tables, the
// statements, and the form of rows.
//
// One schema serves both dialects, which differ in types and in how parameters are written.
// Read [Pending] for the versions of the schema, then [Statements], then [RunOf].
//
// Invariants: a table changes by a new step and never by editing an old one; a step of a
// minor version only adds tables, columns and indexes, or puts one index in the place of another, so
// that a program of the version before works on the same file.
//
// The package must not know a driver: it makes texts and arguments, and reads rows of plain
// values.
package sqlstore

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/journal"
)

// A Dialect is a way to write SQL.
type Dialect string

// The dialects, by the name of their folder of steps.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

//go:embed sqlite/*.sql postgres/*.sql
var steps embed.FS

// A Version is one of the schema. The zero Version is that of an empty database.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// ParseVersion is the reverse of [Version.String].
func ParseVersion(text string) (Version, error) {
	major, minor, ok := strings.Cut(text, ".")
	if !ok {
		return Version{}, fmt.Errorf("%q is not a version of a journal", text)
	}
	a, err := strconv.ParseUint(major, 10, 31)
	if err != nil {
		return Version{}, fmt.Errorf("%q is not a version of a journal", text)
	}
	b, err := strconv.ParseUint(minor, 10, 31)
	if err != nil {
		return Version{}, fmt.Errorf("%q is not a version of a journal", text)
	}
	return Version{int(a), int(b)}, nil
}

func compareVersions(a, b Version) int {
	return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
}

// A Step brings a schema to its version.
type Step struct {
	Version Version
	Text    string // several statements
}

// Steps returns all steps of a dialect, in their order.
func Steps(d Dialect) ([]Step, error) {
	return readSteps(steps, string(d))
}

func readSteps(files fs.FS, folder string) ([]Step, error) {
	names, err := fs.Glob(files, folder+"/*.sql")
	if err != nil {
		return nil, err
	}
	all := make([]Step, 0, len(names))
	for _, name := range names {
		v, err := ParseVersion(strings.TrimSuffix(path.Base(name), ".sql"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all = append(all, Step{v, string(text)})
	}
	slices.SortFunc(all, func(a, b Step) int { return compareVersions(a.Version, b.Version) })
	return all, nil
}

// Pending returns those of all the steps that a schema lacks. Run them in one transaction
// that keeps others out, and write the last version to meta with [Statements.PutVersion].
// Of a newer minor version nothing is lacking, and the version stays. A newer major one is
// [journal.ErrNewer].
func Pending(all []Step, have Version) ([]Step, error) {
	if len(all) > 0 {
		if newest := all[len(all)-1].Version; have.Major > newest.Major {
			return nil, fmt.Errorf("%w: %s, and this program knows %d: start the program that wrote it, or a later one",
				journal.ErrNewer, have, newest.Major)
		}
	}
	i := slices.IndexFunc(all, func(s Step) bool { return compareVersions(s.Version, have) > 0 })
	if i < 0 {
		return nil, nil
	}
	return all[i:], nil
}
