// Package deadletter reads and changes files of dead letters: what a sink has written of the messages that
// a source has sent to its port error, one a line.
//
// Read [Letter] and [Each] for what is in a file, and [Open] for taking letters out of it.
//
// Invariants: a letter leaves a file only by [File.Remove], which overwrites its line with spaces, or with
// the whole file, which a requeue has claimed. Both hold the lock of the file. A sink may append to the file
// meanwhile: what is there keeps its place, and a blank line is not a letter.
//
// The package must not know how a letter is sent through a workflow again.
package deadletter

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/value"
)

// A Letter is a line of a file of dead letters.
type Letter struct {
	Line int         // its number, from 1; 0 for one that [File.At] has found
	At   int64       // where its text begins in the file
	Raw  []byte      // the line, without spaces around it
	V    value.Value // null if the line is not a map of JSON
}

// Field returns a field below the letter as text; empty if it has none.
func (l *Letter) Field(path ...string) string {
	v := l.V
	for _, name := range path {
		v, _ = v.Get(name)
	}
	if v.IsNull() {
		return ""
	}
	return v.String()
}

// Source is the node that the letter is of; empty if the line is not a letter.
func (l *Letter) Source() string { return l.Field("node") }

// Reason is why the message has failed, without the node and the place, which are known.
func (l *Letter) Reason() string {
	at := fmt.Sprintf("node %q (%s): ", l.Field("letter", "failed"), l.Field("letter", "place"))
	return strings.TrimPrefix(l.Field("message"), at)
}

// Sum tells the letter from another one that may be at its place later.
func (l *Letter) Sum() string {
	sum := sha256.Sum256(l.Raw)
	return hex.EncodeToString(sum[:8])
}

// Edited returns the line of the letter with other data, the payload of its message.
func (l *Letter) Edited(data value.Value) ([]byte, error) {
	return l.V.With("data", data).AppendJSON(nil)
}

// letterOf returns the letter of a line that begins at a place; nil for a blank one.
func letterOf(at int64, raw []byte) *Letter {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 {
		return nil
	}
	l := &Letter{At: at + int64(bytes.Index(raw, text)), Raw: text}
	if v, err := value.ParseJSON(text); err == nil && v.Kind() == value.KindMap {
		l.V = v
	}
	return l
}

// Each calls f for the lines of what is read that are not blank. Their places count from one.
func Each(from io.Reader, at int64, f func(*Letter) error) error {
	lines := bufio.NewReaderSize(from, 64<<10)
	for n := 1; ; n++ {
		raw, err := lines.ReadBytes('\n')
		if l := letterOf(at, raw); l != nil {
			l.Line = n
			if err := f(l); err != nil {
				return err
			}
		}
		at += int64(len(raw))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A Page is some letters of a source, in the order of their file.
type Page struct {
	Letters []*Letter
	Next    int64 // where the next page begins; 0 for none
}

// maxPage is the most bytes of a file that are read for one page.
const maxPage = 32 << 20

// Read reads up to most letters of a source from a place of a file on, 0 or what a page has named.
func Read(ctx context.Context, path, source string, from int64, most int) (page Page, err error) {
	file, err := os.Open(path)
	if err != nil {
		return Page{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return Page{}, err
	}
	err = Each(file, from, func(l *Letter) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(page.Letters) == most || l.At-from > maxPage {
			page.Next = l.At
			return errFull
		}
		if l.Source() == source {
			page.Letters = append(page.Letters, l)
		}
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return page, err
}

var errFull = errors.New("the page is full")

// Claim is the file that a requeue of a whole file reads. It is there while that has not ended.
func Claim(path string) string { return path + ".requeue" }

// ErrLocked says that another client or program sends letters of the file again.
var ErrLocked = errors.New("letters of the file are being sent again elsewhere")

// Lock keeps others from taking letters out of a file until it is closed.
func Lock(path string) (io.Closer, error) {
	lock, err := vfs.OS{}.Lock(Claim(path) + ".lock")
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return lock, err
}

// A File is a file of which letters are taken. It must be closed.
type File struct {
	file *os.File
	lock io.Closer
}

// Open locks a file, and opens it. The file stays the same one if it is renamed meanwhile.
func Open(path string) (*File, error) {
	if _, err := os.Stat(path); err != nil { // it needs no lock then, which is a file
		return nil, err
	}
	lock, err := Lock(path)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &File{file, lock}, nil
}

// ErrGone says that a letter is not where it was: it was taken out, or the file is another one.
var ErrGone = errors.New("the letter is not there any more")

// At returns the letter with a sum that begins at a place, or [ErrGone].
func (f *File) At(at int64, sum string) (*Letter, error) {
	if at < 0 {
		return nil, ErrGone
	}
	info, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	raw, err := bufio.NewReader(io.NewSectionReader(f.file, at, max(info.Size()-at, 0))).ReadBytes('\n')
	if err != nil && err != io.EOF {
		return nil, err
	}
	l := letterOf(at, raw)
	if l == nil || l.At != at || l.Sum() != sum {
		return nil, ErrGone
	}
	return l, nil
}

// Remove takes a letter out of the file: its line becomes blank, so that nothing else moves, and a sink can
// append meanwhile. Call it once the letter is settled. It is on the disk when Remove returns.
func (f *File) Remove(l *Letter) error {
	if _, err := f.At(l.At, l.Sum()); err != nil {
		return err
	}
	if _, err := f.file.WriteAt(bytes.Repeat([]byte{' '}, len(l.Raw)), l.At); err != nil {
		return err
	}
	return f.file.Sync()
}

// Close closes the file, and lets others have it.
func (f *File) Close() error { return errors.Join(f.file.Close(), f.lock.Close()) }
