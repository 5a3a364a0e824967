package trail

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// An owner is what the lock file says of the writer. It stands from the second
// byte on, since some systems keep others from reading what is locked.
type owner struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
	Version string    `json:"version"`
}

// acquire takes the lock of the writer.
func (s *Store) acquire() error {
	path := filepath.Join(s.dir, lockName)
	lock, err := s.fs.Lock(path)
	if errors.Is(err, vfs.ErrLocked) {
		held := &LockedError{Dir: s.dir}
		if o, err := s.readOwner(path); err == nil {
			held.PID, held.Host, held.Since, held.Version = o.PID, o.Host, o.Since, o.Version
		}
		return held
	}
	if err != nil {
		return err
	}
	if err := s.writeOwner(path); err != nil {
		s.log.Warn("trail: note in the lock who has it", "err", err) // it costs a good message only
	}
	s.lock = lock
	return nil
}

func (s *Store) writeOwner(path string) (err error) {
	o := owner{PID: os.Getpid(), Host: hostname(), Since: s.now().UTC().Truncate(time.Second), Version: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		o.Version = info.Main.Version
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := s.fs.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(int64(len(b)) + 2); err != nil {
		return err
	}
	_, err = f.WriteAt(append(b, '\n'), 1)
	return err
}

func (s *Store) readOwner(path string) (o owner, err error) {
	f, err := s.fs.Open(path)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return o, err
	}
	b := make([]byte, max(0, size-1))
	if n, err := f.ReadAt(b, 1); n < len(b) && !errors.Is(err, io.EOF) {
		return o, err
	}
	err = json.Unmarshal(b, &o)
	return o, err
}

var hostname = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
})
