package flow

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"

	"github.com/spf13/pflag"
)

// profiles are the names of files for go tool pprof and go tool trace; empty for none.
type profiles struct {
	cpu, mem, block, mutex, trace string
}

func (p *profiles) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.cpu, "cpuprofile", "", "write a CPU profile to `FILE` at the end")
	flags.StringVar(&p.mem, "memprofile", "", "write a heap profile to `FILE` at the end")
	flags.StringVar(&p.block, "blockprofile", "", "write a profile of blocking to `FILE` at the end; slows the program down")
	flags.StringVar(&p.mutex, "mutexprofile", "", "write a profile of lock contention to `FILE` at the end; slows the program down")
	flags.StringVar(&p.trace, "trace", "", "write an execution trace to `FILE`, which grows by megabytes per second")
}

// during records while f runs. The error of f comes first: its exit code counts.
func (p *profiles) during(f func() error) error {
	stop, err := p.start()
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return errors.Join(f(), stop())
}

// start opens all files and begins to record; stop writes and closes them. A file
// that cannot be written is an error at the start, not after hours.
func (p *profiles) start() (stop func() error, err error) {
	var undo []func() error
	stop = func() error {
		var errs []error
		for i := len(undo) - 1; i >= 0; i-- {
			errs = append(errs, undo[i]())
		}
		return errors.Join(errs...)
	}
	for _, one := range []struct {
		file   string
		record func(io.Writer) (finish func() error, err error)
	}{
		{p.cpu, started(pprof.StartCPUProfile, pprof.StopCPUProfile)}, {p.trace, started(trace.Start, trace.Stop)}, {p.mem, recordMem}, {p.block, recordBlock}, {p.mutex, recordMutex},
	} {
		if one.file == "" {
			continue
		}
		f, err := os.Create(one.file)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		finish, err := one.record(f)
		if err != nil {
			return nil, errors.Join(err, f.Close(), stop())
		}
		undo = append(undo, func() error { return errors.Join(finish(), f.Close()) })
	}
	return stop, nil
}

// started records from start to stop.
func started(start func(io.Writer) error, stop func()) func(io.Writer) (func() error, error) {
	return func(w io.Writer) (func() error, error) {
		return func() error {
			stop()
			return nil
		}, start(w)
	}
}

func recordMem(w io.Writer) (func() error, error) {
	return func() error {
		runtime.GC() // the profile is of the last collection
		return pprof.WriteHeapProfile(w)
	}, nil
}

func recordBlock(w io.Writer) (func() error, error) {
	runtime.SetBlockProfileRate(1)
	return func() error {
		runtime.SetBlockProfileRate(0)
		return pprof.Lookup("block").WriteTo(w, 0)
	}, nil
}

func recordMutex(w io.Writer) (func() error, error) {
	before := runtime.SetMutexProfileFraction(1)
	return func() error {
		runtime.SetMutexProfileFraction(before)
		return pprof.Lookup("mutex").WriteTo(w, 0)
	}, nil
}
