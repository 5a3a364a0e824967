package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// What a run is: a workflow of effects that do nothing.
const (
	effects      = 3
	payloadBytes = 200
	inFlight     = 256
)

// A job is what a process of this program measures.
type job struct {
	Form    string
	File    string        // of the journal; that of do, if it is empty
	Span    time.Duration // how long
	Runs    int           `json:",omitempty"` // how many, in place of Span
	Flights int           `json:",omitempty"` // runs at a time
	Keyed   bool          `json:",omitempty"`
	Block   bool          `json:",omitempty"` // effects block
	Profile string        `json:",omitempty"` // where profiles go: FILE.cpu and FILE.mutex

	// Of the bare loop.
	Pool  bool `json:",omitempty"` // database/sql
	Rows  int  `json:",omitempty"` // of a statement
	Batch int  `json:",omitempty"` // runs of a group

	// Of the processes that are not durable.
	Hops  int  `json:",omitempty"` // nodes of the chain; of the engine: effects, if not three
	First bool `json:",omitempty"` // the engine with a journal is made first
}

func forms() map[string]func(context.Context, job) (figures, error) {
	return map[string]func(context.Context, job) (figures, error){
		"engine": engineForm, "size": sizeForm, "bare": bareForm, "row": rowForm, "sync": syncForm, "apart": apartForm, "half": halfForm,
	}
}

// be is this program as a process that measures: it prints the figures.
func be(ctx context.Context, text string, stdout io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	form, ok := forms()[j.Form]
	if !ok {
		return fmt.Errorf("there is no form %q", j.Form)
	}
	debug.SetGCPercent(200) // as the program does
	f, err := form(ctx, j)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(f)
}

// figures are what one process has measured.
type figures struct {
	Rate  float64 `json:"rate,omitempty"` // a second
	CPU   float64 `json:"cpu,omitempty"`  // µs of processor time for each
	P50   float64 `json:"p50,omitempty"`  // ms
	P99   float64 `json:"p99,omitempty"`  // ms
	Bytes int64   `json:"bytes,omitempty"`
	Ours  float64 `json:"ours,omitempty"` // ns, where a process measures both sides
	Other float64 `json:"other,omitempty"`
	First float64 `json:"first,omitempty"` // s until the first effect
	RSS   float64 `json:"rss,omitempty"`   // MB, what it has become larger
}

// A watch measures how long something takes, and how much of the processors.
type watch struct {
	start time.Time
	cpu   time.Duration
}

func begun() watch { return watch{time.Now(), program.CPUTime()} }

// figures returns what n of them took. It sorts their times, which may be nil.
func (w watch) figures(n int, took []time.Duration) figures {
	elapsed, cpu := time.Since(w.start), program.CPUTime()-w.cpu
	f := figures{Rate: float64(n) / elapsed.Seconds(), CPU: float64(cpu.Nanoseconds()) / 1e3 / float64(max(n, 1))}
	if slices.Sort(took); len(took) > 0 {
		f.P50, f.P99 = took[len(took)/2].Seconds()*1e3, took[len(took)*99/100].Seconds()*1e3
	}
	return f
}

// profiles begins to write profiles of the processors and of locks to files of a name. It does
// nothing without one.
func profiles(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	runtime.SetMutexProfileFraction(10)
	f, err := os.Create(name + ".cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		var locks bytes.Buffer
		err := pprof.Lookup("mutex").WriteTo(&locks, 0)
		return errors.Join(err, f.Close(), os.WriteFile(name+".mutex", locks.Bytes(), 0o600))
	}, nil
}

// A lab is where measurements are made.
type lab struct {
	config
	*program.Lab
	table   program.Table
	targets program.Targets
	sides   []side
	files   int
	fsync   float64 // ms
}

// A side is one way to do the work of a line, with the medians of its rounds.
type side struct {
	Line  string  `json:"line"`
	Name  string  `json:"name"`
	Share float64 `json:"share,omitempty"` // of the baseline, or what the line is about
	figures
}

func newLab(c config, log io.Writer) (*lab, error) {
	at, err := program.NewLab(c.binary, log)
	l := &lab{config: c, Lab: at}
	l.table.Row("", "a second", "of the baseline", "µs of CPU", "p50, ms", "p99, ms")
	return l, err
}

// do is a job in a process of its own, with a file of its own.
func (l *lab) do(ctx context.Context, j job) (f figures, err error) {
	l.files++
	if j.File == "" {
		j.File = l.File(fmt.Sprintf("%d-%s", l.files, j.Form))
	}
	if j.Span == 0 {
		j.Span = l.span
	}
	text, err := json.Marshal(j)
	if err != nil {
		return f, err
	}
	cmd := exec.CommandContext(ctx, l.Self, "-form", string(text))
	var output, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &errs
	if err := cmd.Run(); err != nil {
		return f, fmt.Errorf("%s: %w: %.1000s", text, err, errs.Bytes())
	}
	if err := json.Unmarshal(output.Bytes(), &f); err != nil {
		return f, fmt.Errorf("%s: %w: %.1000s", text, err, output.Bytes())
	}
	return f, remove(j.File)
}

// remove removes a database with all that belongs to it.
func remove(file string) error {
	for _, end := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Remove(file + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// A round is one way to do the work.
type round struct {
	name string
	run  func(context.Context) (figures, error)
}

func (l *lab) job(name string, j job) round {
	return round{name, func(ctx context.Context) (figures, error) { return l.do(ctx, j) }}
}

// turns does all rounds in turns, and returns the medians of each.
func (l *lab) turns(ctx context.Context, id string, rounds ...round) ([]side, error) {
	got := make([][]figures, len(rounds))
	err := program.Turns(l.rounds, len(rounds), func(i int) error {
		f, err := rounds[i].run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", rounds[i].name, err)
		}
		l.Progress("  %s: %.0f/s, %.1f µs of CPU, p50 %.2f ms", rounds[i].name, f.Rate, f.CPU, f.P50)
		got[i] = append(got[i], f)
		return nil
	})
	sides := make([]side, len(rounds))
	for i, all := range got {
		of := func(field func(figures) float64) float64 {
			var values []float64
			for _, f := range all {
				values = append(values, field(f))
			}
			return program.Median(values)
		}
		sides[i] = side{Line: id, Name: rounds[i].name, figures: figures{
			Rate: of(func(f figures) float64 { return f.Rate }), CPU: of(func(f figures) float64 { return f.CPU }),
			P50: of(func(f figures) float64 { return f.P50 }), P99: of(func(f figures) float64 { return f.P99 }),
			Bytes: int64(of(func(f figures) float64 { return float64(f.Bytes) })),
			First: of(func(f figures) float64 { return f.First }), RSS: of(func(f figures) float64 { return f.RSS }),
			Ours: of(func(f figures) float64 { return f.Ours }), Other: of(func(f figures) float64 { return f.Other }),
		}}
	}
	return sides, err
}

// enter adds sides to the table. The baseline is the rate that shares are of; 0 leaves them as
// they are.
func (l *lab) enter(baseline float64, sides ...side) {
	for _, s := range sides {
		if baseline > 0 {
			s.Share = s.Rate / baseline
		}
		l.table.Row(s.Line+" "+s.Name, figure("%.0f", s.Rate), figure("%.3f", s.Share), figure("%.1f", s.CPU), figure("%.2f", s.P50), figure("%.2f", s.P99))
		l.sides = append(l.sides, s)
	}
}

func figure(format string, v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// least adds the target that a value is as large as the contract says.
func (l *lab) least(name string, contract, got float64) {
	l.targets.Add(got >= contract, name, fmt.Sprintf("at least %g", contract), fmt.Sprintf("%.4g", got))
}

func (l *lab) most(name string, contract, got float64) {
	l.targets.Add(got <= contract, name, fmt.Sprintf("at most %g", contract), fmt.Sprintf("%.4g", got))
}

// fast reports whether the disk is as fast as some lines of the contract require.
func (l *lab) fast() bool { return l.fsync <= 0.5 }
