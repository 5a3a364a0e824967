package vfs

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
)

// A Note is a file of a few bytes that says what a log has acknowledged. A log whose
// end was damaged looks like one whose last write was interrupted; the note
// distinguishes them. The file holds the bytes, then their CRC-32C, little endian.
//
// The bytes are written in place, after the fsync of what they say and before it is
// acknowledged, and without an fsync of the note: so a note never promises what is not
// on the disk. A kill leaves it exact; after a loss of power it may be some seconds old,
// as the kernel wrote it. A note that is damaged, torn or missing says nothing.
//
// One goroutine calls its methods. The zero Note is closed.
type Note struct {
	file    File
	scratch []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Open opens the file for Write, and makes it if it is missing.
func (n *Note) Open(fsys FS, path string) (made bool, err error) {
	f, err := fsys.Open(path)
	if made = errors.Is(err, fs.ErrNotExist); made {
		f, err = fsys.Create(path)
	}
	if err == nil {
		n.file = f
	}
	return made, err
}

// Write writes the note. Its length must always be the same. It does nothing if the file
// is not open.
func (n *Note) Write(b []byte) error {
	if n.file == nil {
		return nil
	}
	n.scratch = append(n.scratch[:0], b...)
	n.scratch = binary.LittleEndian.AppendUint32(n.scratch, crc32.Checksum(b, castagnoli))
	_, err := n.file.WriteAt(n.scratch, 0)
	return err
}

// Close closes the file, if it is open.
func (n *Note) Close() error {
	if n.file == nil {
		return nil
	}
	f := n.file
	n.file = nil
	return f.Close()
}

// ReadNote returns what a file of size bytes that [Note.Write] has written says, nil if
// nothing is known.
func ReadNote(fsys FS, path string, size int) ([]byte, error) {
	b, err := ReadFile(fsys, path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // an earlier version wrote none
		return nil, nil
	case err != nil:
		return nil, err
	case len(b) < size+crc32.Size || crc32.Checksum(b[:size], castagnoli) != binary.LittleEndian.Uint32(b[size:]):
		return nil, nil
	}
	return b[:size], nil
}
