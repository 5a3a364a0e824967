package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/trail"
)

// cores is how many processors both may use.
const cores = 2

// A lab is where measurements are made: the data set, the store that is open, and
// DuckDB. It must be closed.
type lab struct {
	*config
	data  *dataSet
	store *trail.Store
	duck  *duck // nil without
	*program.Log
	log    io.Writer // of DuckDB
	notes  []string  // remarks on the figures
	remove string    // a folder; "" for none
	procs  int       // GOMAXPROCS before
}

func newLab(ctx context.Context, c *config, log io.Writer) (*lab, error) {
	l := &lab{config: c, Log: program.NewLog(log), log: log, procs: runtime.GOMAXPROCS(0)}
	dir := c.dir
	if dir == "" {
		if err := os.MkdirAll(c.out, 0o755); err != nil {
			return nil, err
		}
		// On a disk, which the system's temporary folder may not be.
		var err error
		if dir, err = os.MkdirTemp(c.out, "trail-"); err != nil {
			return nil, err
		}
		l.remove = dir
	}
	runtime.GOMAXPROCS(min(cores, l.procs))
	if err := l.open(ctx, dir); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// open makes what is missing, and opens it.
func (l *lab) open(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	l.data = newDataSet(l.config, dir)
	if err := l.data.recall(); err != nil && !l.fresh {
		return err
	}
	if l.fresh || l.data.made.Parquet == nil {
		if err := l.data.remove(); err != nil {
			return err
		}
	}
	if err := l.data.generate(ctx, l.config, l.Progress); err != nil {
		return err
	}
	if l.data.made.Import == nil { // left by a run that was interrupted
		if err := os.RemoveAll(l.data.store()); err != nil {
			return err
		}
	} else {
		l.note("the figures of importing are of %s", l.data.made.Import.Time.Format(time.RFC3339))
	}
	if err := l.data.fillStore(ctx, l.Progress); err != nil {
		return err
	}
	if !l.skipDuck {
		if err := l.openDuck(ctx, dir); err != nil {
			return err
		}
	}
	if runtime.GOMAXPROCS(0) < cores {
		l.note("there is only one processor: the figures of two are of one")
	}
	return l.reopen()
}

// openDuck builds and starts DuckDB, and has it load the file.
func (l *lab) openDuck(ctx context.Context, dir string) error {
	l.Progress("building the command duck")
	program := filepath.Join(dir, "duck")
	if err := buildDuck(ctx, l.oracle, program); err != nil {
		return fmt.Errorf("%w (-skip-duckdb measures without)", err)
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	if l.duck, err = startDuck(ctx, program, l.log); err != nil {
		return err
	}
	if l.data.made.Load == nil {
		l.Progress("loading into DuckDB")
		if err := errors.Join(os.RemoveAll(l.data.duckdb()), os.RemoveAll(l.data.duckdb()+".wal")); err != nil {
			return err
		}
	} else {
		l.note("the figures of loading into DuckDB are of %s", l.data.made.Load.Time.Format(time.RFC3339))
	}
	return l.data.fillDuck(l.duck, cores)
}

// reopen opens the store, having closed it if it was open.
func (l *lab) reopen() error {
	if err := l.closeStore(); err != nil {
		return err
	}
	var err error
	l.store, err = trail.Open(l.data.store(), trail.Options{ReadOnly: true})
	return err
}

func (l *lab) closeStore() error {
	if l.store == nil {
		return nil
	}
	s := l.store
	l.store = nil
	return s.Close()
}

// forgetStore has the system drop what it keeps of the store, and opens it.
func (l *lab) forgetStore() error {
	if err := l.closeStore(); err != nil {
		return err
	}
	err := filepath.WalkDir(l.data.store(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return program.Forget(path)
	})
	return errors.Join(err, l.reopen())
}

// forgetDuck does the same with DuckDB's file.
func (l *lab) forgetDuck() error {
	if _, err := l.duck.ask(request{Op: "close"}); err != nil {
		return err
	}
	if err := program.Forget(l.data.duckdb()); err != nil {
		return err
	}
	_, err := l.duck.ask(request{Op: "open", DB: l.data.duckdb(), Threads: cores})
	return err
}

func (l *lab) close() error {
	err := l.closeStore()
	if l.duck != nil {
		err = errors.Join(err, l.duck.close())
	}
	runtime.GOMAXPROCS(l.procs)
	if l.remove != "" {
		err = errors.Join(err, os.RemoveAll(l.remove))
	}
	return err
}

func (l *lab) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// fill takes all measurements.
func (l *lab) fill(ctx context.Context, f *figures) error {
	f.Made = l.data.made
	all, err := l.chosen()
	if err != nil {
		return err
	}
	subjects := make([]*subject, len(all))
	for i, q := range all {
		l.Progress("%d of %d: %s: first answers", i+1, len(all), q.name)
		if subjects[i], err = l.compare(ctx, q); err != nil {
			return err
		}
	}
	if err := l.compareSamples(subjects); err != nil {
		return err
	}
	for i, s := range subjects {
		l.Progress("%d of %d: %s: %d rounds", i+1, len(all), s.name, l.rounds)
		got, err := l.takeTurns(ctx, s)
		if err != nil {
			return err
		}
		f.Queries = append(f.Queries, *got)
	}
	if program.CanForget {
		for i, s := range subjects {
			l.Progress("%d of %d: %s: from disk", i+1, len(all), s.name)
			if err := l.cold(ctx, s, &f.Queries[i]); err != nil {
				return err
			}
		}
	} else {
		l.note("files cannot be dropped from memory here: there are no figures of a first question")
	}
	if !l.skipStorms {
		if f.Storms, err = l.storms(ctx, subjects); err != nil {
			return err
		}
	}
	f.Notes = l.notes
	return nil
}
