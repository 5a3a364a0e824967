package files

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/glob"
	"github.com/uniflow-labs/uniflow/node/stream"
)

const patternHint = "close [ with ], or write \\[ for the character itself"

// checkPatterns returns what is wrong with paths.
func checkPatterns(paths []string) error {
	for _, path := range paths {
		if err := glob.Check(path); err != nil {
			return err
		}
	}
	return nil
}

// warnMissing warns of the paths of a config that lead to no file. It says nothing of those that
// a template has made: they are of another place.
func warnMissing(init *node.Init, later bool) {
	if init.Job != nil && init.Job.AllowEmpty {
		return
	}
	for item := range init.Config.Raw("paths").All() {
		path, ok := item.Value.AsString()
		if !ok || item.Templated {
			continue
		}
		if why, hint, ok := glob.Missing(path, later); ok {
			init.AddWarning(diag.Warningf(diag.CodeNoFile, "%s", why).WithHint("%s", hint).At(item.Pos, init.Config.Path("paths")))
		}
	}
}

// expand returns the paths that patterns match now, in the order of the patterns.
func expand(patterns []string) (paths []string) {
	for _, pattern := range patterns {
		paths = append(paths, glob.Expand(pattern)...)
	}
	return paths
}

// look scans if it is time to, or a folder has changed, and wakes the files that have.
func (s *source) look(now time.Time) {
	changed, folders := s.watch.drain()
	if folders || now.Sub(s.scans) >= s.rescan {
		s.scan(now)
		return
	}
	if len(changed) == 0 {
		return
	}
	s.mu.Lock()
	var grown []*tail
	for _, t := range s.mu.tails {
		if changed[filepath.Clean(t.path)] && !t.done {
			grown = append(grown, t)
		}
	}
	s.mu.Unlock()
	for _, t := range grown {
		s.wake(t)
	}
}

func (s *source) wake(t *tail) {
	if !t.ready {
		t.ready = true
		s.queue = append(s.queue, t)
	}
}

// A find is a file that a scan came upon and nothing reads yet.
type find struct {
	id   fileID
	path string
	info fs.FileInfo
	tail *tail // nil if it is new
}

// scan looks for new files, for those that have grown, and for those that are gone.
func (s *source) scan(now time.Time) {
	s.scans = now
	seen := map[fileID]bool{}
	var finds []find
	var total int64
	for _, path := range expand(s.paths) {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = regular(info.Mode(), path)
		}
		if err != nil {
			s.warnOnce(path, err)
			continue
		}
		delete(s.warned, path)
		f := find{id: identity(info, path), path: path, info: info}
		if seen[f.id] {
			continue
		}
		seen[f.id] = true
		total += info.Size()
		if s.see(&f, now) {
			finds = append(finds, f)
		}
	}
	s.take(finds, seen, now)
	s.mu.Lock()
	s.mu.total = total
	var missing []*tail
	var whole []away
	for id, t := range s.mu.tails {
		if !seen[id] {
			missing = append(missing, t)
		} else {
			whole = s.wholeLocked(whole, t)
		}
	}
	s.mu.Unlock()
	for _, t := range missing {
		s.miss(t, now)
	}
	if err := s.putAway(whole); err != nil {
		s.log.Warn("a file stays", "err", err)
	}
	if s.watch != nil {
		s.watch.add(s.paths)
	}
}

// take begins with the files that were found, in this order.
func (s *source) take(finds []find, seen map[fileID]bool, now time.Time) {
	for _, f := range finds {
		if f.tail == nil && s.trace(&f, seen, now) {
			f.tail = s.newTail(f.id, mark{cut: s.nextCut(f.id), origin: f.id, path: f.path})
		}
		if f.tail != nil {
			delete(s.suspects, f.id)
			s.queue = append(s.queue, f.tail)
		}
	}
	for id := range s.suspects {
		if !seen[id] {
			delete(s.suspects, id)
		}
	}
	s.mu.Lock()
	s.mu.byPath = nil
	s.mu.Unlock()
}

// see deals with a file that is there. It reports whether nothing reads it yet.
func (s *source) see(f *find, now time.Time) (found bool) {
	s.mu.Lock()
	t := s.mu.tails[f.id]
	s.mu.Unlock()
	if t != nil && t.doubtful(f) {
		s.forget(t)
		t = nil
	}
	s.mu.Lock()
	if t != nil {
		t.path = f.path
	}
	e := s.mu.past.byKey[f.id.name()]
	s.mu.Unlock()
	switch packed := s.input.Of(f.path).Packed(); {
	case t == nil && packed && s.follow && now.Sub(f.info.ModTime()) < s.idle:
		s.hold(f, nil, now)
	case t == nil && e == nil:
		return true
	case t == nil:
		return s.resume(e, f)
	case !s.follow || t.last && !t.done:
	case !t.done:
		t.gone = false
		if f.info.Size() != t.at() || t.file == nil {
			s.wake(t)
		}
		if s.settled != "keep" && !t.ready && !t.quiet.IsZero() && now.Sub(f.info.ModTime()) >= s.idle && now.Sub(t.quiet) >= s.idle {
			s.finish(t)
		}
	case f.info.Size() == t.raw || t.fixed:
	case t.failed: // it may have been repaired
		s.begin(f.id, mark{cut: t.cut + 1, origin: t.origin, path: f.path})
	default: // it grows although it was whole
		s.goOn(t, f)
	}
	return false
}

// finish reads the rest of a file, of which nothing more is expected.
func (s *source) finish(t *tail) {
	t.last = true
	t.reader.End()
	s.wake(t)
}

// resume goes on in a file that has the id of one that is known. It reports whether the file
// is to be read, and not at all now if it is not known how far.
func (s *source) resume(e *entry, f *find) (found bool) {
	m := e.read()
	file, err := openRegular(f.path)
	if err != nil {
		s.warnOnce(f.path, err)
		return false
	}
	defer file.Close() //nolint:errcheck // it was read only
	first, whole, err := m.fits(file)
	packed := s.input.Of(f.path).Packed()
	if m.place.at == 0 { // of 4d86ea6
		whole = first && (packed || f.info.Size() >= m.offset)
		if err == nil && whole && !packed {
			m.place, err = placeOf(file, m.offset)
		}
	}
	if err != nil {
		s.warnOnce(f.path, err)
		return false
	}
	if was, is := dateOf(m.path), dateOf(f.path); was != "" && is != "" && !strings.HasPrefix(is, was) {
		whole = false // the file of another day has got the inode
	}
	s.mu.Lock()
	if !whole {
		s.cutLocked(e)
	} else {
		s.mu.past.remove(e)
	}
	s.mu.Unlock()
	switch {
	case !whole:
	case e.tail != nil:
		s.goOn(e.tail, f)
		return false
	default:
		m.path = f.path
		f.tail = s.newTail(f.id, m)
	}
	return true
}

// begin reads a file from a mark on.
func (s *source) begin(id fileID, m mark) *tail {
	t := s.newTail(id, m)
	s.queue = append(s.queue, t)
	return t
}

// newTail returns a tail that is not in the queue yet.
func (s *source) newTail(id fileID, m mark) *tail {
	m.line = max(1, m.line)
	t := &tail{
		path: m.path, id: id, origin: m.origin, cut: m.cut, start: m.position, end: m.position, settled: m.position, ready: true,
		print: m.fingerprint, place: m.place, proof: m.place, fixed: s.input.Of(m.path).Packed(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.lane = s.mu.lanes
	s.mu.lanes++
	s.mu.tails[id] = t
	s.indexLocked(t)
	s.mu.cuts[m.origin] = max(m.cut, s.mu.cuts[m.origin])
	return t
}

// end notes that nothing more is read of a file.
func (s *source) end(t *tail) {
	if err := t.close(); err != nil {
		s.log.Warn("a file was not closed", "path", t.path, "err", err)
	}
	t.ready = false
	s.mu.Lock()
	t.done = true
	whole := s.wholeLocked(nil, t)
	s.mu.Unlock()
	if err := s.putAway(whole); err != nil {
		s.log.Warn("a file stays", "err", err)
	}
}

// miss deals with a file that no path leads to: it is read to its end, and forgotten when
// nothing was added for a while.
func (s *source) miss(t *tail, now time.Time) {
	s.mu.Lock()
	done := t.done
	s.mu.Unlock()
	switch {
	case done:
		s.forget(t)
	case t.file == nil:
		if !s.follow { // Read says what is wrong
			return
		}
		s.forget(t)
	case !t.gone:
		t.gone = true
		s.wake(t)
	case t.ready || t.last:
	case !t.quiet.IsZero() && now.Sub(t.quiet) >= s.idle:
		s.finish(t)
	default:
		s.wake(t)
	}
}

// forget drops a file that is gone. Its messages may still be settled, and it may come back
// in another form.
func (s *source) forget(t *tail) {
	s.mu.Lock()
	t.done = true
	s.forgetLocked(t)
	if !t.failed && t.end.offset > 0 {
		s.rememberLocked(&entry{key: t.id.name(), id: t.id, tail: t})
	}
	s.mu.Unlock()
	t.ready = false
}

func (s *source) forgetLocked(t *tail) {
	if s.mu.tails[t.id] == t {
		delete(s.mu.tails, t.id)
		s.changeLocked(t.id.name(), t.id)
		s.forgetCutLocked(t.origin, t.cut)
	}
}

// Position keeps where a file is settled, under its inode. The position of a file that
// is gone, and not remembered, is forgotten.
func (s *source) Position(m stream.Mark) (lane, kept string) {
	tok := m.Token.(*token)
	t := tok.tail
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.kept = true
	switch {
	case s.mu.tails[t.id] == t:
		return t.id.name(), t.mark(tok.end, *tok.place).String()
	case t.entry != nil:
		return t.entry.key, t.mark(tok.end, *tok.place).String()
	}
	return fmt.Sprintf("%s.-%d", t.id.name(), t.lane), ""
}

// Resume takes the positions that were kept.
func (s *source) Resume(positions map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(positions)) {
		if positions[key] == "" {
			continue
		}
		m, ok := parseMark(positions[key])
		name, _, cut := strings.Cut(key, ".")
		id, okID := parseID(name)
		if !ok || !okID {
			return fmt.Errorf("position %q of %q: it is not one of a file", positions[key], key)
		}
		if m.origin == (fileID{}) {
			m.origin = id
		}
		s.mu.past.add(&entry{key: key, id: id, mark: m, cut: cut})
		s.mu.cuts[m.origin] = max(m.cut, s.mu.cuts[m.origin])
	}
	s.mu.kept = true
	return nil
}

// inFolder reports whether a pattern may match files of a folder.
func inFolder(pattern, folder string) bool {
	return glob.Match(glob.Folder(pattern), filepath.Clean(folder))
}
