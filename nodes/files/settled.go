package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// Settle deals with files that are settled as a whole.
func (s *source) Settle(_ context.Context, settled stream.Settled) error {
	var whole []away
	s.mu.Lock()
	for _, m := range settled.Marks {
		tok := m.Token.(*token)
		t := tok.tail
		t.settled, t.proof = tok.end, *tok.place
		whole = s.wholeLocked(whole, t)
	}
	s.mu.Unlock()
	return s.putAway(whole)
}

// An away is a file that is to be deleted or moved, with its path now.
type away struct {
	tail *tail
	id   fileID
	path string
}

// wholeLocked appends a file if it is to be dealt with now, as the field settled says.
func (s *source) wholeLocked(whole []away, t *tail) []away {
	if s.mu.tails[t.id] != t || !t.done || t.failed || t.away || t.settled.offset < t.end.offset || s.settled == "keep" {
		return whole
	}
	t.away = true
	return append(whole, away{t, t.id, t.path})
}

// putAway deletes or moves files, if their names still lead to them.
func (s *source) putAway(whole []away) error {
	var errs []error
	for _, a := range whole {
		info, err := os.Stat(a.path)
		switch {
		case err != nil || identity(info, a.path) != a.id: // it was rotated, or is gone
			continue
		case s.settled == "delete":
			err = os.Remove(a.path)
		default:
			err = moveInto(a.path, s.moveTo)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s a settled file: %w", s.settled, err))
			continue
		}
		s.mu.Lock()
		s.forgetLocked(a.tail) // another file may get the inode
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// moveInto moves a file into a folder, under a name that is free there.
func moveInto(path, folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for i := range 10_000 {
		to := filepath.Join(folder, filepath.Base(path))
		if i > 0 {
			to += fmt.Sprintf(".%d", i)
		}
		// Making the name first keeps a file that comes there in the meantime.
		f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Close(), os.Rename(path, to)); err != nil {
			return errors.Join(err, os.Remove(to))
		}
		return nil
	}
	return errors.New("all names are taken")
}
