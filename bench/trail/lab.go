package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
// the other engines. It must be closed.
type lab struct {
	*config
	data     *dataSet
	shuffled *made // figures of the shuffled file; nil without
	store    *trail.Store
	peers    []*peer
	*program.Log
	log     io.Writer // of the other engines
	notes   []string  // remarks on the figures
	program string    // the program itself, for questions by a new process; "" for none
	remove  string    // a folder; "" for none
	procs   int       // GOMAXPROCS before
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
	if err := l.startPeers(ctx); err != nil {
		return err
	}
	if l.order == orderSorted && !l.skipShuffled {
		if err := l.measureShuffled(ctx, dir); err != nil {
			return err
		}
	}
	var err error
	if l.data, err = l.make(ctx, dir, l.order); err != nil {
		return err
	}
	for _, p := range l.peers {
		l.Progress("loading into %s", p.engine)
		if was := l.data.made.Loads[p.engine]; was != nil {
			l.note("the figures of loading into %s are of %s", p.engine, was.Time.Format(time.RFC3339))
		}
		if err := l.data.fillPeer(p, l.config, true); err != nil {
			return err
		}
	}
	if !l.skipProcess {
		l.Progress("building the program")
		if l.program, err = filepath.Abs(filepath.Join(dir, "uniflow")); err != nil {
			return err
		}
		if _, err := (program.Toolchain{}).Do(ctx, "build", "-o", l.program, "github.com/uniflow-labs/uniflow/cmd/uniflow"); err != nil {
			return fmt.Errorf("%w (-skip-process measures without)", err)
		}
	}
	if runtime.GOMAXPROCS(0) < cores {
		l.note("there is only one processor: the figures of two are of one")
	}
	return l.reopen()
}

// make makes the file and the store of a data set, if they are not there.
func (l *lab) make(ctx context.Context, dir, order string) (*dataSet, error) {
	d := newDataSet(l.config, order, dir)
	if err := d.recall(); err != nil && !l.fresh {
		return nil, err
	}
	if l.fresh || d.made.Parquet == nil {
		if err := d.remove(); err != nil {
			return nil, err
		}
	}
	if err := d.generate(ctx, l.config, l.Progress); err != nil {
		return nil, err
	}
	if d.made.Import == nil { // left by a run that was interrupted
		if err := os.RemoveAll(d.store()); err != nil {
			return nil, err
		}
	} else {
		l.note("the figures of importing what is %s are of %s", order, d.made.Import.Time.Format(time.RFC3339))
	}
	return d, d.fillStore(ctx, l.Progress)
}

// measureShuffled imports a shuffled file. Nothing is asked of it: what a store or a
// sorted table has in the end is the same.
func (l *lab) measureShuffled(ctx context.Context, dir string) error {
	d, err := l.make(ctx, dir, orderShuffled)
	if err != nil {
		return err
	}
	for _, p := range l.peers {
		if d.made.Loads[p.engine] != nil {
			continue
		}
		l.Progress("loading what is shuffled into %s", p.engine)
		err := errors.Join(d.fillPeer(p, l.config, false), p.shut(), d.removeDatabase(p.engine))
		if err != nil {
			return err
		}
	}
	l.shuffled = &d.made
	return nil
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
	return errors.Join(forget(l.data.store()), l.reopen())
}

// peer returns the engine of a name, nil without.
func (l *lab) peer(engine string) *peer {
	for _, p := range l.peers {
		if p.engine == engine {
			return p
		}
	}
	return nil
}

func (l *lab) close() error {
	err := l.closeStore()
	for _, p := range l.peers {
		err = errors.Join(err, p.close())
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
	f.Made, f.Shuffled = l.data.made, l.shuffled
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
