package spool

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// A Damage is a damaged place in a file.
type Damage struct {
	Path           string
	Offset, Length int64
	Reason         string
}

// A Cursor is the position at which a Scan ended. The zero Cursor is the beginning.
type Cursor struct {
	segment uint64
	offset  int64
}

// Scan reads the unacknowledged records of a folder, the oldest first, without opening
// the spool: it locks, repairs and changes nothing, and a spool may use the folder
// meanwhile. Some acknowledged records may be among them. A broken end of the log is
// an interrupted write, or one in progress. It is damage only if it was durable at a
// checkpoint.
//
// Scan begins at a cursor, and returns a cursor for the records that come later. A
// missing folder has no records. The error is from yield, whose error ends the scan, or
// from reading the folder. fs.ErrNotExist means that a spool deleted a segment
// meanwhile: scan again.
func Scan(fsys vfs.FS, dir string, from Cursor, yield func(Record) error) (Cursor, []Damage, error) {
	if fsys == nil {
		fsys = vfs.OS{ReadOnly: true}
	}
	names, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil, nil
	}
	if err != nil {
		return from, nil, err
	}
	v := &folderScan{fs: fsys, dir: dir, yield: yield, cursor: from}
	if err := v.checkpoints(names); err != nil {
		return from, nil, err
	}
	for _, n := range segmentNumbers(names) {
		if n < from.segment {
			continue
		}
		if err := v.segment(n, filepath.Join(dir, segmentFiles.Name(n))); err != nil {
			return v.cursor, v.damages, err
		}
	}
	return v.cursor, v.damages, nil
}

// A folderScan is the state of Scan.
type folderScan struct {
	fs      vfs.FS
	dir     string
	saved   checkpoint
	yield   func(Record) error
	cursor  Cursor
	damages []Damage
}

func (v *folderScan) damage(path string, off, length int64, reason string) {
	v.damages = append(v.damages, Damage{path, off, length, reason})
}

// checkpoints reads both checkpoints and keeps the newer valid one. It returns an
// error if one cannot be read for lack of permission: then it may be valid.
func (v *folderScan) checkpoints(names []string) error {
	for _, name := range slots {
		if !slices.Contains(names, name) {
			continue
		}
		path := filepath.Join(v.dir, name)
		b, err := vfs.ReadFile(v.fs, path)
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		if err != nil {
			v.damage(path, 0, 0, err.Error())
			continue
		}
		if len(bytes.TrimLeft(b, "\x00")) == 0 {
			continue // made, but not written yet
		}
		c, wrong := parseCheckpoint(b)
		if wrong != "" {
			v.damage(path, 0, int64(len(b)), wrong)
			continue
		}
		if c.generation >= v.saved.generation {
			v.saved = c
		}
	}
	return nil
}

// A padded file has zeros after its end: the spool may truncate it after the scan has
// asked for its size.
type padded struct{ io.ReaderAt }

func (p padded) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		clear(b[n:])
		return len(b), nil
	}
	return n, err
}

func (v *folderScan) segment(number uint64, path string) (err error) {
	f, err := v.fs.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	var st state
	for _, saved := range v.saved.segments {
		if saved.number == number {
			st = saved
		}
	}
	st.mark = max(st.mark, segmentHeader)
	sc := newScanner(padded{f}, size)
	ver, _, _, ok := parseSegmentHeader(sc.bytes(0, min(segmentHeader, size)))
	switch {
	case ok && ver != version:
		v.damage(path, 0, size, "it has version "+strconv.FormatUint(uint64(ver), 10))
		return nil
	case !ok && st.synced <= segmentHeader && sc.content(0, size) == 0:
		return nil // just made
	case !ok:
		v.damage(path, 0, min(segmentHeader, size), "its header is damaged")
	}
	if v.cursor.segment != number {
		v.cursor = Cursor{segment: number}
	}
	before := len(v.damages)
	if err := v.records(path, sc, st); err != nil || len(v.damages) == before {
		return err
	}
	// A spool truncates files that it has removed.
	again, err := v.fs.Open(path)
	if err != nil {
		v.damages = v.damages[:before]
		return err
	}
	return again.Close()
}

// records reads the records of a segment.
func (v *folderScan) records(path string, sc *scanner, st state) error {
	acked := st.acked
	end := min(max(st.mark, v.cursor.offset), sc.size)
	defer func() { v.cursor.offset = end }()
	for off := end; ; {
		for len(acked) > 0 && acked[0].to <= off {
			acked = acked[1:]
		}
		if len(acked) > 0 && acked[0].from <= off {
			off, end = acked[0].to, acked[0].to
			continue
		}
		limit := sc.size
		if len(acked) > 0 {
			limit = min(limit, acked[0].from)
		}
		got, ok := sc.next(off, limit)
		if ok && !got.ok && !got.last {
			// A spool may have written the record, and more, while it was read:
			// read it again.
			sc.buf, sc.sums = nil, nil
			got, ok = sc.next(off, limit)
		}
		switch {
		case !ok:
			if end < st.synced {
				v.damage(path, end, st.synced-end, "the end is missing")
			}
			return nil
		case got.ok:
			if err := v.yield(got.record); err != nil {
				return err
			}
		case got.last && limit == sc.size:
			if off < st.synced {
				v.damage(path, off, max(st.synced, sc.content(off, limit))-off, "damaged records")
			}
			return nil
		default:
			v.damage(path, got.from, got.to-got.from, "damaged records")
		}
		off, end = got.to, got.to
	}
}
