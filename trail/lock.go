package trail

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// An owner is what the lock file says about the writer. It starts at the second byte,
// because some systems do not let others read locked bytes.
type owner struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
	Version string    `json:"version"`
}

// lock locks the store for its one writer.
func (d *folder) lock(now time.Time) (io.Closer, error) {
	path := d.path(lockName)
	lock, err := d.fs.Lock(path)
	if errors.Is(err, vfs.ErrLocked) {
		held := &LockedError{Dir: d.dir}
		if o, err := readOwner(d.fs, path); err == nil {
			held.PID, held.Host, held.Since, held.Version = o.PID, o.Host, o.Since, o.Version
		}
		return nil, held
	}
	if err != nil {
		return nil, err
	}
	if err := writeOwner(d.fs, path, now); err != nil {
		d.log.Warn("trail: note in the lock who has it", "err", err) // only LockedError needs it
	}
	return lock, nil
}

func writeOwner(fsys vfs.FS, path string, now time.Time) (err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	o := owner{PID: os.Getpid(), Host: host, Since: now.UTC().Truncate(time.Second), Version: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		o.Version = info.Main.Version
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := fsys.Open(path)
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

func readOwner(fsys vfs.FS, path string) (o owner, err error) {
	f, err := fsys.Open(path)
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
