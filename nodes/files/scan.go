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

	"github.com/uniflow-labs/uniflow/node/stream"
)

// isPattern reports whether a path may match several files.
func isPattern(path string) bool { return strings.ContainsAny(path, "*?[") }

// checkPatterns returns what is wrong with paths.
func checkPatterns(paths []string) error {
	for _, path := range paths {
		if path == "" {
			return errors.New("a path is empty")
		}
		if _, err := filepath.Match(path, ""); err != nil {
			return fmt.Errorf("the pattern %q is not complete", path)
		}
	}
	return nil
}

// expand returns the paths that patterns match now, in the order of the patterns.
func expand(patterns []string) (paths []string) {
	for _, pattern := range patterns {
		if !isPattern(pattern) {
			paths = append(paths, pattern)
			continue
		}
		found, _ := filepath.Glob(pattern) // patterns were checked, and folders that cannot be read have nothing
		paths = append(paths, found...)
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

// scan looks for new files, for those that have grown, and for those that are gone.
func (s *source) scan(now time.Time) {
	s.scans = now
	seen := map[fileID]bool{}
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
		id := identity(info, path)
		if seen[id] {
			continue
		}
		seen[id] = true
		total += info.Size()
		s.see(id, path, info, now)
	}
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

// see deals with a file that is there.
func (s *source) see(id fileID, path string, info fs.FileInfo, now time.Time) {
	s.mu.Lock()
	t := s.mu.tails[id]
	if t != nil {
		t.path = path
	}
	kept := s.mu.marks[id.name()]
	s.mu.Unlock()
	switch packed := s.input.of(path).packed(); {
	case t == nil && packed && s.follow && now.Sub(info.ModTime()) < s.idle: // it is being written
	case t == nil:
		start, cut, err := resume(kept, path, packed, info.Size())
		if err != nil {
			s.warnOnce(path, err)
			return
		}
		s.begin(id, path, start, cut)
	case !s.follow || t.last && !t.done:
	case !t.done:
		t.gone = false
		if info.Size() != t.at() || t.file == nil {
			s.wake(t)
		}
		if s.settled != "keep" && !t.ready && !t.quiet.IsZero() && now.Sub(info.ModTime()) >= s.idle && now.Sub(t.quiet) >= s.idle {
			s.finish(t)
		}
	case info.Size() == t.raw || packed:
	case t.failed: // it may have been repaired
		s.begin(id, path, position{}, t.cut+1)
	default: // it grows although it was whole
		s.begin(id, path, t.end, t.cut)
	}
}

// finish reads the rest of a file, of which nothing more is expected.
func (s *source) finish(t *tail) {
	t.last = true
	t.reader.End()
	s.wake(t)
}

// resume returns where a file was settled that is the one that was marked.
func resume(kept, path string, packed bool, size int64) (start position, cut int, err error) {
	m, ok := parseMark(kept)
	if !ok {
		return position{}, 0, nil
	}
	f, err := openRegular(path)
	if err != nil {
		return position{}, 0, err
	}
	fp, err := printOf(f, m.size)
	if err := errors.Join(err, f.Close()); err != nil {
		return position{}, 0, err
	}
	if fp != m.fingerprint || !packed && size < m.offset {
		return position{}, m.cut + 1, nil
	}
	return m.position, m.cut, nil
}

// begin reads a file from a position on.
func (s *source) begin(id fileID, path string, start position, cut int) {
	start.line = max(1, start.line)
	t := &tail{path: path, id: id, start: start, cut: cut, ready: true, end: start, settled: start}
	s.mu.Lock()
	t.lane = s.mu.lanes
	s.mu.lanes++
	s.mu.tails[id] = t
	s.mu.Unlock()
	s.queue = append(s.queue, t)
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

// forget drops what is known of a file. Its messages may still be settled.
func (s *source) forget(t *tail) {
	s.mu.Lock()
	t.done = true
	s.forgetLocked(t)
	s.mu.Unlock()
	t.ready = false
}

func (s *source) forgetLocked(t *tail) {
	if s.mu.tails[t.id] == t {
		delete(s.mu.tails, t.id)
		if s.mu.kept {
			s.mu.forgotten = append(s.mu.forgotten, t.id.name())
		}
	}
}

// Forgotten returns the lanes of files that are gone.
func (s *source) Forgotten() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lanes := s.mu.forgotten
	s.mu.forgotten = nil
	return lanes
}

// Position keeps the inode of a file, and where it is settled. That of a file that was
// replaced, or is gone and settled, is forgotten.
func (s *source) Position(m stream.Mark) (lane, kept string) {
	tok := m.Token.(*token)
	t := tok.tail
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.kept = true
	now := s.mu.tails[t.id]
	if now != nil && now != t {
		return fmt.Sprintf("%s.%d", t.id.name(), t.lane), ""
	}
	if now == nil && tok.end.offset >= t.end.offset {
		return t.id.name(), ""
	}
	mk := mark{position: tok.end, fingerprint: t.print, cut: t.cut, path: t.path}
	return t.id.name(), mk.String()
}

// Resume takes the positions that were kept.
func (s *source) Resume(positions map[string]string) error {
	for lane, text := range positions {
		if _, ok := parseMark(text); !ok && text != "" {
			return fmt.Errorf("position %q of %q: it is not one of a file", text, lane)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.marks = maps.Clone(positions)
	return nil
}

// inFolder reports whether a pattern may match files of a folder.
func inFolder(pattern, folder string) bool {
	ok, err := filepath.Match(filepath.Dir(pattern), filepath.Clean(folder))
	return ok && err == nil
}

// folders returns the folders that the files of patterns are in.
func folders(patterns []string) []string {
	var all []string
	for _, pattern := range patterns {
		for _, dir := range expand([]string{filepath.Dir(pattern)}) {
			if !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all
}
