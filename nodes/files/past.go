package files

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// maxPast is how many files are remembered that are gone, or have other content now. Those
// of a checkpoint are more if there were more files: they may come back with their folder.
const maxPast = 256

// A past knows the files that were read, and are not there now as they were.
type past struct {
	byKey  map[string]*entry
	byPath map[string][]*entry
	oldest *list.List // of entries
}

// An entry is a file of the past.
type entry struct {
	key     string // in the checkpoint
	id      fileID
	mark    mark  // without a tail
	tail    *tail // nil if the program was started since it was read
	cut     bool  // the file is there, with other content, or another file has its id
	element *list.Element
}

func newPast() past {
	return past{byKey: map[string]*entry{}, byPath: map[string][]*entry{}, oldest: list.New()}
}

// add takes an entry in.
func (p *past) add(e *entry) {
	p.byKey[e.key] = e
	path := filepath.Clean(e.path())
	p.byPath[path] = append(p.byPath[path], e)
	e.element = p.oldest.PushBack(e)
	if e.tail != nil {
		e.tail.entry = e
	}
}

func (p *past) remove(e *entry) {
	delete(p.byKey, e.key)
	path := filepath.Clean(e.path())
	if p.byPath[path] = slices.DeleteFunc(p.byPath[path], func(o *entry) bool { return o == e }); len(p.byPath[path]) == 0 {
		delete(p.byPath, path)
	}
	p.oldest.Remove(e.element)
	if e.tail != nil {
		e.tail.entry = nil
	}
}

func (e *entry) path() string {
	if e.tail != nil {
		return e.tail.path
	}
	return e.mark.path
}

// read returns how far the file was read, and kept how far it is settled.
func (e *entry) read() mark {
	if e.tail != nil {
		return e.tail.mark(e.tail.end, e.tail.place)
	}
	return e.mark
}

func (e *entry) kept() mark {
	if e.tail != nil {
		return e.tail.mark(e.tail.settled, e.tail.proof)
	}
	return e.mark
}

// rememberLocked takes an entry in, for a file that may come back in another form, and drops
// the oldest ones. Two at a time, so that many of a checkpoint become fewer.
func (s *source) rememberLocked(e *entry) {
	s.mu.past.add(e)
	s.changeLocked(e.key, e.id)
	m := e.kept()
	s.mu.cuts[m.origin] = max(m.cut, s.mu.cuts[m.origin])
	for range 2 {
		if oldest := s.mu.past.oldest.Front(); s.mu.past.oldest.Len() > maxPast {
			s.dropLocked(oldest.Value.(*entry))
		}
	}
}

func (s *source) dropLocked(e *entry) {
	s.mu.past.remove(e)
	s.changeLocked(e.key, e.id)
	m := e.kept()
	s.forgetCutLocked(m.origin, m.cut)
}

func (s *source) forgetCutLocked(origin fileID, cut int) {
	if s.mu.cuts[origin] == cut {
		delete(s.mu.cuts, origin)
	}
}

// cutLocked notes that the file of an entry has other content now.
func (s *source) cutLocked(e *entry) {
	s.mu.past.remove(e)
	s.changeLocked(e.key, e.id)
	m := e.kept()
	if s.input.Of(m.path).Packed() {
		return
	}
	e.key, e.cut = fmt.Sprintf("%s.%d", m.origin.name(), m.cut), true
	s.rememberLocked(e)
}

// changeLocked notes that what the checkpoint has under a key is not right any more.
func (s *source) changeLocked(key string, id fileID) {
	if s.mu.kept {
		s.mu.changed[key] = id
	}
}

// Moved returns the positions of lanes that have changed without a mark since the last call:
// of files that are gone, or were copied or compressed.
func (s *source) Moved() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved := map[string]string{}
	for key, id := range s.mu.changed {
		m := mark{}
		if e := s.mu.past.byKey[key]; e != nil {
			m = e.kept()
		} else if t := s.mu.tails[id]; t != nil && key == id.name() {
			m = t.mark(t.settled, t.proof)
		}
		moved[key] = ""
		if m.offset > 0 {
			moved[key] = m.String()
		}
	}
	clear(s.mu.changed)
	return moved
}

// A suspect is a file that may be a copy of another that is still there, or is being written.
type suspect struct {
	path  string
	of    *tail // of which it is a copy up to size; nil if it is being written
	size  int64
	since time.Time
}

// hold keeps a file from being read, and returns since when it is as long as it is.
func (s *source) hold(f *find, of *tail, now time.Time) time.Time {
	h := s.suspects[f.id]
	if h == nil || h.size != f.info.Size() {
		h = &suspect{since: now}
		s.suspects[f.id] = h
	}
	h.path, h.of, h.size = f.path, of, f.info.Size()
	return h.since
}

// trace looks for what a new file was before it was rotated. It returns false if the file is
// not to be read now, or is read on by the tail of the file that it was.
func (s *source) trace(f *find, seen map[fileID]bool, now time.Time) (begin bool) {
	var entries []*entry
	var tails []*tail
	s.mu.Lock()
	if s.mu.byPath == nil {
		s.mu.byPath = map[string][]*tail{}
		for _, t := range s.mu.tails {
			s.indexLocked(t)
		}
	}
	for _, path := range originals(f.path) {
		entries = append(entries, s.mu.past.byPath[path]...)
		tails = append(tails, s.mu.byPath[path]...)
	}
	s.mu.Unlock()
	if len(entries)+len(tails) == 0 {
		return true
	}
	file, err := openRegular(f.path)
	if err != nil {
		s.warnOnce(f.path, err)
		return false
	}
	defer file.Close() //nolint:errcheck // it was read only
	c := &candidate{find: f, packing: input.PackingOf(f.path), file: file, seen: seen, now: now}
	for _, t := range tails {
		if s.liveOf(c, t) {
			return false
		}
		if t.entry != nil { // it was truncated
			entries = append(entries, t.entry)
		}
	}
	return s.pastOf(c, entries)
}

// indexLocked lets trace find a tail.
func (s *source) indexLocked(t *tail) {
	if s.mu.byPath != nil {
		path := filepath.Clean(t.path)
		s.mu.byPath[path] = append(s.mu.byPath[path], t)
	}
}

// A candidate is a file that may be what has become of another.
type candidate struct {
	*find
	packing string
	file    *os.File
	seen    map[fileID]bool
	now     time.Time
	like    string // a file that it begins like
	reason  string // why it is none of it
}

// fits is [mark.fits] after unpacking. A file that cannot be unpacked does not fit: reading it
// says why.
func (c *candidate) fits(m mark) (first, whole bool) {
	if c.packing == "" {
		first, whole, err := m.fits(c.file)
		return err == nil && first, err == nil && whole
	}
	src, err := unpack(input.Input{Packing: c.packing}, c.file, 0)
	if err != nil {
		return false, false
	}
	f, err := newForward(src)
	if err != nil {
		return false, false
	}
	first, whole, err = m.fits(f)
	return first, whole && err == nil
}

// liveOf reports whether a file has to wait as long as one that is read may turn out to be its
// original.
func (s *source) liveOf(c *candidate, t *tail) (wait bool) {
	there := c.seen[t.id]
	switch {
	case t.entry != nil || t.fixed || t.failed:
		return false
	case t.end.offset == 0: // they may as well be files that have the same
		if there && c.packing == "" && c.info.Size() > 0 && s.copied(c, t) {
			c.like, c.reason = t.path, "neither was read before"
		}
		return false
	}
	if there && t.file == nil && !t.done && errors.Is(s.open(t), errCut) { // reading says what else is wrong
		s.replace(t)
		return false
	}
	first, whole := false, false
	if c.packing == "" && there {
		whole = s.copied(c, t)
	} else {
		first, whole = c.fits(t.mark(t.end, t.place))
	}
	// Afterwards, as it may be truncated at any time.
	if t.file != nil {
		if _, changed, err := t.changed(); err == nil && changed {
			s.replace(t)
			return false
		}
	}
	if first && (!whole || c.packing == "") {
		c.like, c.reason = t.path, "it has not all that was read, or the file was deleted"
	}
	if !whole || !there && c.packing == "" {
		return false
	}
	since := s.hold(c.find, t, c.now)
	if !s.follow {
		since = c.info.ModTime()
	}
	if !there || c.now.Sub(since) < s.idle || c.packing != "" && sameTime(c, t) {
		if !s.follow {
			s.log.Info("a copy is left for the next run: the file that it is of may be truncated now", "path", c.path, "of", t.path)
		}
		return true
	}
	c.like, c.reason = t.path, "that file is still there as it was"
	return false
}

// sameTime reports whether a compressed file has the time of its original, as tools give it.
func sameTime(c *candidate, t *tail) bool {
	info, err := os.Stat(t.path)
	return err == nil && info.ModTime().Sub(c.info.ModTime()).Abs() < time.Second
}

// copied reports whether a file is a copy of another so far.
func (s *source) copied(c *candidate, t *tail) bool {
	f, err := openRegular(t.path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was read only
	info, err := f.Stat()
	size := c.info.Size()
	if err != nil || identity(info, t.path) != t.id || info.Size() < size {
		return false
	}
	fp, err1 := printOf(c.file, printSize)
	of, err2 := printOf(f, fp.size)
	at, err3 := placeOf(c.file, size)
	ofAt, err4 := placeOf(f, size)
	return errors.Join(err1, err2, err3, err4) == nil && fp == of && at == ofAt
}

// pastOf goes on in a file where its original was left, which is one of entries, or says that
// it is to be read from the beginning. Of those that fit, it is the one that was read furthest.
func (s *source) pastOf(c *candidate, entries []*entry) (begin bool) {
	info, err := c.file.Stat() // a copy is complete when its original is truncated
	if err != nil {
		s.warnOnce(c.path, err)
		return false
	}
	c.info = info
	slices.SortStableFunc(entries, func(a, b *entry) int { return cmp.Compare(b.read().offset, a.read().offset) })
	for _, e := range entries {
		m := e.read()
		if m.offset == 0 || s.input.Of(m.path).Packed() || e.tail != nil && e.tail.failed || !e.cut && c.seen[e.id] {
			continue
		}
		first, whole := c.fits(m)
		if h := s.suspects[c.id]; h != nil && h.of != nil && h.of == e.tail && h.size == c.info.Size() {
			first, whole = true, true // it was compared with the file itself
		}
		if first && whole && (e.cut || c.packing != "") {
			if err := s.follows(c, e); err != nil {
				s.warnOnce(c.path, err)
			}
			return false
		}
		if first {
			c.like, c.reason = m.path, "it has not all that was read, or the file was deleted"
		}
	}
	if c.like != "" {
		s.log.Warn("a file that looks like a rotation of another is read from its beginning", "path", c.path, "of", c.like, "reason", c.reason,
			"hint", "its records may come twice: rotate by renaming, or leave the names of rotated files out of paths")
	}
	return true
}

// follows lets the tail of an entry go on in another file.
func (s *source) follows(c *candidate, e *entry) error {
	m := e.read()
	copyOf := int64(0)
	if size := c.info.Size(); c.packing != "" {
		var err1, err2 error
		m.fingerprint, err1 = printOf(c.file, printSize)
		m.place, err2 = placeOf(c.file, size)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	} else if size < m.offset { // lines were added between copying and truncating
		at, err := placeOf(c.file, size)
		if err != nil {
			return err
		}
		copyOf, m.place = size, at
	}
	s.log.Info("a rotated file is read on where it was left", "path", c.path, "of", m.path, "offset", m.offset)
	s.mu.Lock()
	s.mu.past.remove(e)
	s.changeLocked(e.key, e.id)
	s.mu.Unlock()
	t := e.tail
	if t == nil {
		m.path = c.path
		t = s.begin(c.id, m)
	} else {
		s.goOn(t, c.find)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.print, t.place, t.limit = m.fingerprint, m.place, copyOf
	if t.fixed = c.packing != "" || copyOf > 0; copyOf > 0 {
		t.done, t.ready, t.raw = true, false, copyOf
	}
	s.changeLocked(c.id.name(), c.id)
	return nil
}

// goOn lets a tail read on in a file, with the messages that it has.
func (s *source) goOn(t *tail, f *find) {
	s.mu.Lock()
	t.id, t.path, t.start, t.done, t.away = f.id, f.path, t.end, false, false
	if t.limit > 0 {
		t.start.offset = t.limit
	}
	s.mu.tails[t.id] = t
	s.indexLocked(t)
	s.mu.Unlock()
	t.stat, t.rest, t.reader, t.gone, t.last, t.quiet = nil, nil, nil, false, false, time.Time{}
	if input.PackingOf(f.path) != "" {
		t.raw = 0
	}
	s.queue = slices.DeleteFunc(s.queue, func(o *tail) bool { return o == t })
	t.ready = false
	s.wake(t)
}

// replace begins with a file again that was truncated. What was read of it is remembered: it
// may have been copied before.
func (s *source) replace(t *tail) {
	s.log.Info("a file was truncated, and is read from its beginning", "path", t.path)
	reader := t.reader
	if reader != nil {
		var err error
		if t.rest, err = reader.Buffered(math.MaxInt, math.MaxInt64); err != nil {
			s.log.Warn("a file cannot be read", "path", t.path, "err", err)
		}
		if rec, ok := reader.Rest(); ok {
			rec.Err = errors.New("the file was truncated within the record")
			t.rest = append(t.rest, rec)
		}
	}
	if len(t.rest) > 0 {
		s.torn = append(s.torn, t)
	}
	if err := t.close(); err != nil {
		s.log.Warn("a file was not closed", "path", t.path, "err", err)
	}
	t.reader = reader
	t.ready = false
	s.queue = slices.DeleteFunc(s.queue, func(o *tail) bool { return o == t })
	s.mu.Lock()
	t.done = true
	id := t.id
	s.changeLocked(id.name(), id)
	s.rememberLocked(&entry{key: fmt.Sprintf("%s.%d", t.origin.name(), t.cut), id: id, tail: t, cut: true})
	s.mu.Unlock()
	s.begin(id, mark{cut: s.nextCut(id), origin: id, path: t.path})
}

// nextCut returns how many files had an id, as far as that is known.
func (s *source) nextCut(id fileID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cut, ok := s.mu.cuts[id]; ok {
		return cut + 1
	}
	return 0
}

// afterCut returns what had been read of a file that was truncated, unless a copy of the file
// may have it.
func (s *source) afterCut(room stream.Room) []stream.Message {
	for i := 0; i < len(s.torn); i++ {
		t := s.torn[i]
		if len(t.rest) > 0 && s.awaits(t) {
			continue
		}
		if len(t.rest) == 0 { // it goes on in the copy
			s.torn = slices.Delete(s.torn, i, i+1)
			i--
			continue
		}
		n := min(len(t.rest), max(1, room.Messages))
		records := t.rest[:n]
		t.rest = t.rest[n:]
		s.mu.Lock()
		if t.entry != nil {
			s.dropLocked(t.entry)
		}
		s.mu.Unlock()
		return s.messages(t, records, t.reader.Decoder())
	}
	return nil
}

// awaits reports whether a file is held that may be a copy of what another had.
func (s *source) awaits(t *tail) bool {
	for _, h := range s.suspects {
		if slices.Contains(originals(h.path), filepath.Clean(t.path)) {
			return true
		}
	}
	return false
}
