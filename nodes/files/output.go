package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

func (out *output) begin(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	out.size, out.since, out.dirty = info.Size(), info.ModTime(), false
	if out.size == 0 {
		out.since = out.o.clock.Now()
		return nil
	}
	if out.o.format.Name != format.Raw {
		if err := out.mend(f); err != nil {
			return fmt.Errorf("mend the end of %s: %w", out.path, err)
		}
	}
	if out.o.format.Name == format.CSV && out.o.format.Columns == nil {
		r := format.NewReader(io.NewSectionReader(f, 0, out.size), out.o.format, 0, 1)
		r.End()
		if _, err := r.Read(nil, 1, 1); err != nil && err != io.EOF {
			return fmt.Errorf("the columns of %s: %w", out.path, err)
		}
		out.enc.SetColumns(r.Columns())
	}
	return nil
}

// maxTorn is how long a torn line may be that is looked at as a whole.
const maxTorn = 64 << 20

// mend ends or cuts off a last line without its end.
func (out *output) mend(f *os.File) error {
	start, line := out.size, []byte(nil)
	for piece := int64(4 << 10); start > 0 && out.size-start < maxTorn; piece *= 4 {
		n := min(piece, start)
		b := make([]byte, n, n+int64(len(line)))
		if _, err := f.ReadAt(b, start-n); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			line = append(b[i+1:], line...)
			start += int64(i+1) - n
			break
		}
		line = append(b, line...)
		start -= n
	}
	if len(line) == 0 {
		return nil
	}
	if _, err := value.ParseJSON(line); err != nil && out.o.format.Name == format.NDJSON {
		out.o.log.Warn("a torn line was cut off", "path", out.path, "bytes", out.size-start)
		out.size = start
		return f.Truncate(start)
	}
	n, err := f.Write([]byte{'\n'})
	out.size += int64(n)
	return err
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
	if out.file != nil && out.size > 0 && (out.o.bytes > 0 && out.size+n > out.o.bytes || out.o.interval > 0 && period(now, out.o.interval).After(out.since)) {
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

// period returns when the period began that t is in.
func period(t time.Time, d time.Duration) time.Time {
	return time.Unix(0, t.UnixNano()/int64(d)*int64(d))
}

// writePart writes records from number i on, whose data begins at start, as far as the
// file may have them. It returns how many are in the file.
func (out *output) writePart(b *batch, i, start int, result []written) (n int, err error) {
	last := i + 1
	for last < len(b.records) && (out.o.bytes == 0 || out.size+int64(b.records[last].end-start) <= out.o.bytes) {
		last++
	}
	var header []byte
	if out.size == 0 && out.o.format.Name == format.CSV {
		out.enc.Lock()
		header = out.enc.AppendHeader(nil)
		out.enc.Unlock()
		if _, err := out.append(header); err != nil {
			return 0, err
		}
	}
	base := out.size
	wrote, err := out.append(b.data[start:b.records[last-1].end])
	for ; i < last && b.records[i].end-start <= wrote; i++ {
		result[i].offset = base + int64(b.records[i].end-start)
		if n > 0 {
			result[i].offset = base + int64(b.records[i-1].end-start)
		} else {
			result[i].offset = base
		}
		n++
	}
	if err != nil {
		good := base
		if n > 0 {
			good += int64(b.records[i-1].end - start)
		}
		out.size = good
		if cut := out.file.Truncate(good); cut != nil {
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

// rotatedTime is how the time of rotation stands in a name, so that names sort by it.
const rotatedTime = "20060102T150405.000Z"

// rotate gives the file another name, and deletes old ones.
func (out *output) rotate(now time.Time) error {
	if err := errors.Join(out.syncLocked(), out.close()); err != nil {
		return err
	}
	ext := filepath.Ext(out.path)
	stem := strings.TrimSuffix(out.path, ext)
	for t := now.UTC(); ; t = t.Add(time.Millisecond) {
		to := stem + "." + t.Format(rotatedTime) + ext
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if err := os.Rename(out.path, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		break
	}
	if out.o.keep > 0 {
		if err := out.drop(stem, ext); err != nil {
			out.o.log.Warn("old files were not deleted", "path", out.path, "err", err)
		}
	}
	return nil
}

var rotatedName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{3}Z$`)

// drop deletes the oldest files that were rotated.
func (out *output) drop(stem, ext string) error {
	dir := filepath.Dir(stem)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), filepath.Base(stem)+".")
		if ok {
			name, ok = strings.CutSuffix(name, ext)
		}
		if ok && rotatedName.MatchString(name) {
			old = append(old, e.Name())
		}
	}
	slices.Sort(old)
	var errs []error
	for _, name := range old[:max(0, len(old)-out.o.keep)] {
		errs = append(errs, os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// isFull reports whether an error goes away when there is more space.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EDQUOT)
}
