package trail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A share is the value of --sample, 0 if it was not given.
type share float64

func (s *share) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }

func (s *share) Set(text string) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 0 && f <= 1) { // NaN too
		return errors.New("must be a number above 0 and up to 1, such as 0.1 for a tenth of the users")
	}
	*s = share(f)
	return nil
}

func (*share) Type() string { return "SHARE" }

// A period is a duration of the command line, 0 if it was not given.
type period time.Duration

func (p *period) String() string {
	if *p == 0 {
		return "0"
	}
	return time.Duration(*p).String()
}

func (p *period) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch _, plain := strconv.ParseFloat(text, 64); {
	case err == nil:
		*p = period(d)
		return nil
	case plain == nil:
		return fmt.Errorf("needs a unit after the number, such as %ss for seconds, or ms, m, h", text)
	}
	return errors.New("must be a duration such as 500ms, 30s, 10m or 168h")
}

func (*period) Type() string { return "DURATION" }

// checkFiles refuses files that do not exist or have an unknown extension, before a
// store is made for them.
func checkFiles(command string, files []string) error {
	for _, f := range files {
		if f == app.StdinPath {
			continue
		}
		info, err := os.Stat(f)
		if err == nil && info.IsDir() {
			return app.Usagef(command, "name the files in it, such as "+filepath.Join(f, "*.csv"), "%s is a folder", f)
		}
		if err := trail.CheckImportName(f); err != nil {
			return app.Usagef(command, "", "%s: %w", f, err)
		}
		if err != nil {
			return app.InputError(f, err)
		}
	}
	return nil
}

// checkFolder refuses to make a store in a folder with other files. A folder that has
// any part of a store is accepted, even if it is damaged.
func checkFolder(command string, db string) error {
	entries, err := os.ReadDir(db)
	if err != nil {
		return nil // trail.Open reports it
	}
	foreign := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case slices.Contains([]string{"LOCK", "MANIFEST.a", "MANIFEST.b", "segments", "cohorts", "wal", "loader"}, name):
			return nil
		case strings.HasPrefix(name, "."), name == "lost+found", name == "tmp":
		case foreign == "":
			foreign = name
		}
	}
	if foreign == "" {
		return nil
	}
	return app.Usagef(command, "name a folder that is empty or not there yet, such as "+filepath.Join(db, "events.trail"), "%s is not a store: it has other files in it, such as %s", db, foreign)
}

// cohortHint adds the names of the cohorts in the store to the error about an unknown
// cohort.
func cohortHint(err error, s *trail.Store) error {
	var problem *query.Error
	var unknown *query.UnknownCohortError
	if !errors.As(err, &problem) || !errors.As(err, &unknown) {
		return err
	}
	var names []string
	for _, c := range s.Info().Cohorts {
		names = append(names, c.Name)
	}
	hinted := *problem
	hinted.Hint = app.DidYouMean(unknown.Name, names, "")
	switch {
	case hinted.Hint != "":
	case len(names) == 0:
		hinted.Hint = "this store keeps no cohorts yet: --save keeps one"
	default:
		hinted.Hint = "the store keeps " + strings.Join(names[:min(len(names), 20)], ", ")
		if more := len(names) - 20; more > 0 {
			hinted.Hint += " and " + show.Count(int64(more), "other")
		}
	}
	return &hinted
}
