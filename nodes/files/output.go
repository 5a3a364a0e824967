package files

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// outputOptions say how a file is written.
type outputOptions struct {
	format   format.Options
	empty    bool // begin with an empty file
	sync     string
	bytes    int64
	interval time.Duration
	keep     int
	clock    node.Clock
	log      *slog.Logger
}

// outputs are the files that sinks of this program write. The sinks of several
// generations, which overlap at a reload, share one file of a path, so that neither tears
// the other's lines.
var outputs outputSet

type outputSet struct {
	mu   sync.Mutex
	open map[string]*output
}

// An output is a file that is written at its end.
type output struct {
	path string
	uses int // guarded by the set

	mu      sync.Mutex // held while the file is written
	o       outputOptions
	file    *os.File // nil if it must be opened again
	size    int64    // of the file
	since   time.Time
	checked time.Time
	dirty   bool // not synced

	enc struct {
		sync.Mutex
		*format.Encoder
	}
}

// acquire returns the output of a path, which it opens. The options of the last call count.
func (set *outputSet) acquire(path string, o outputOptions) (target, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	out := set.open[full]
	if out == nil {
		out = &output{path: path, o: o}
		out.enc.Encoder = format.NewEncoder(o.format)
		if err := out.open(o.empty); err != nil {
			return nil, err
		}
		if set.open == nil {
			set.open = map[string]*output{}
		}
		set.open[full] = out
	} else {
		out.mu.Lock()
		out.o = o
		out.mu.Unlock()
	}
	out.uses++
	return out, nil
}

// release closes the output after its last use.
func (set *outputSet) release(t target) error {
	out := t.(*output)
	set.mu.Lock()
	defer set.mu.Unlock()
	if out.uses--; out.uses > 0 {
		return nil
	}
	for path, other := range set.open {
		if other == out {
			delete(set.open, path)
		}
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	return errors.Join(out.syncLocked(), out.close())
}

// open opens the file at its end, and mends what a crash has left there.
func (out *output) open(empty bool) error {
	if dir := filepath.Dir(out.path); dir != "." {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	if info, err := os.Stat(out.path); err == nil {
		if info.IsDir() {
			return fmt.Errorf("%s is a folder; name a file in it", out.path)
		}
		if err := regularOr(info.Mode(), out.path, "a program can be written to through the kind stdout"); err != nil {
			return err
		}
	}
	flags := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if empty {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(out.path, flags, 0o666)
	if err != nil {
		return err
	}
	if err := out.begin(f); err != nil {
		return errors.Join(err, f.Close())
	}
	out.file = f
	return nil
}

func (out *output) close() error {
	if out.file == nil {
		return nil
	}
	f := out.file
	out.file = nil
	return f.Close()
}

// encode appends a record.
func (out *output) encode(dst []byte, v value.Value) ([]byte, error) {
	out.enc.Lock()
	defer out.enc.Unlock()
	return out.enc.Append(dst, v)
}

func (out *output) name() string { return out.path }

// A written record is at an offset, or has an error.
type written struct {
	offset int64
	err    error
}

// write writes the records of a batch, to several files if they have to be rotated.
func (out *output) write(b *batch) []written {
	out.mu.Lock()
	defer out.mu.Unlock()
	result := make([]written, len(b.records))
	for i, start := 0, 0; i < len(b.records); {
		n, err := 0, out.prepare(int64(b.records[i].end-start))
		if err == nil {
			n, err = out.writePart(b, i, start, result)
		}
		i += n
		if n > 0 {
			start = b.records[i-1].end
		}
		if err != nil { // the rest fails: a later one must not overtake
			for ; i < len(b.records); i++ {
				result[i].err = err
			}
		}
	}
	if out.o.sync == "each" {
		if err := out.syncLocked(); err != nil {
			for i := range result {
				result[i].err = errors.Join(result[i].err, err)
			}
			_ = out.close() // what it has of the data is not known; opening it again mends it
		}
	}
	return result
}

// prepare makes the file ready for a record of some bytes.
func (out *output) prepare(n int64) error {
	now := out.o.clock.Now()
	if out.file != nil && now.Sub(out.checked) >= time.Second {
		out.checked = now
		here, err := out.file.Stat()
		there, err2 := os.Stat(out.path)
		if err == nil && (err2 != nil || !os.SameFile(here, there)) { // another program has rotated it
			if err := errors.Join(out.syncLocked(), out.close()); err != nil {
				out.o.log.Warn("a file that was renamed was not closed well", "path", out.path, "err", err)
			}
		}
	}
	if out.file != nil && out.full(now, n) {
		if err := out.rotate(now); err != nil {
			return err
		}
	}
	if out.file == nil {
		if err := out.open(false); err != nil {
			return err
		}
	}
	return nil
}

// writePart writes records from number i on, whose data begins at start, as far as the
// file may have them. It returns how many are in the file.
func (out *output) writePart(b *batch, i, start int, result []written) (n int, err error) {
	last := i + 1
	for last < len(b.records) && (out.o.bytes == 0 || out.size+int64(b.records[last].end-start) <= out.o.bytes) {
		last++
	}
	if out.size == 0 && out.o.format.Name == format.CSV {
		out.enc.Lock()
		header := out.enc.AppendHeader(nil)
		out.enc.Unlock()
		if _, err := out.append(header); err != nil {
			return 0, err
		}
	}
	base, whole := out.size, 0 // bytes of the records that are in the file
	wrote, err := out.append(b.data[start:b.records[last-1].end])
	for ; i < last && b.records[i].end-start <= wrote; i++ {
		result[i].offset = base + int64(whole)
		whole = b.records[i].end - start
		n++
	}
	if err != nil {
		out.size = base + int64(whole)
		if cut := out.file.Truncate(out.size); cut != nil {
			err = errors.Join(err, cut, out.close()) // opening it again mends it
		}
	}
	return n, err
}

func (out *output) append(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := out.file.Write(b)
	out.dirty = true
	if err == nil {
		out.size += int64(n)
	}
	return n, err
}

func (out *output) syncLocked() error {
	if out.file == nil || !out.dirty || out.o.sync == "none" {
		return nil
	}
	out.dirty = false
	return out.file.Sync()
}

// tick makes the file durable.
func (out *output) tick() error {
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.syncLocked()
}

// isFull reports whether an error goes away when there is more space.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EDQUOT)
}
