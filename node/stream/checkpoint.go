package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/node"
)

// A keeper keeps the positions of a session in a file. The goroutine that connects calls
// resume, and later the one that settles calls keep.
type keeper struct {
	path      string
	positions map[string]string
}

// kept is what the file holds, as JSON.
type kept struct {
	Positions map[string]string `json:"positions"`
}

// load reads the file. One that does not exist has no positions.
func (k *keeper) load() error {
	text, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		k.positions = make(map[string]string)
		return nil
	}
	if err != nil {
		return err
	}
	var file kept
	if err := json.Unmarshal(text, &file); err != nil || file.Positions == nil {
		if err == nil {
			err = errors.New("it has no positions")
		}
		return &damagedError{k.path, err}
	}
	k.positions = file.Positions
	return nil
}

// A damagedError says that a file is not one of positions.
type damagedError struct {
	path string
	err  error
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("%s is damaged, or not a file of positions: %v", e.path, e.err)
}

// resume lets a reader go on where the file says.
func (k *keeper) resume(r Reader) error {
	if err := k.load(); err != nil {
		return err
	}
	if len(k.positions) == 0 {
		return nil
	}
	if err := r.(Resumer).Resume(k.positions); err != nil {
		return fmt.Errorf("positions of %s: %w", k.path, err)
	}
	return nil
}

// keep notes marks, and replaces the file: a crash leaves the old one or the new one.
func (k *keeper) keep(r Resumer, marks []Mark) error {
	for _, m := range marks {
		if lane, position := r.Position(m); position != "" {
			k.positions[lane] = position
		} else {
			delete(k.positions, lane)
		}
	}
	if f, ok := r.(forgetter); ok {
		for _, lane := range f.Forgotten() {
			delete(k.positions, lane)
		}
	}
	text, err := json.MarshalIndent(kept{k.positions}, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(k.path, append(text, '\n')); err != nil {
		return fmt.Errorf("keeping positions: %w", err)
	}
	return nil
}

// A forgetter is a [Resumer] whose lanes come to an end. Forgotten returns the names of
// those that have since the last call.
type forgetter interface{ Forgotten() []string }

// replaceFile writes a file next to the one of that name, and renames it when the disk
// has it.
func replaceFile(path string, text []byte) (err error) {
	next := path + ".next"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next) // the next call truncates it otherwise
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(next, path); err != nil {
		return err
	}
	return vfs.OS{}.SyncDir(filepath.Dir(path))
}

// A claim is the use of a file of positions by the nodes of one name.
type claim struct {
	io.Closer // unlocks it for other programs
	seat      *seat
	by        string
}

// claim makes the file of positions that of this seat, and checks it. Two sources would
// overwrite the positions of each other.
func (n *sourceNode) claim() (release func() error, err error) {
	group := n.init.Config.Group("checkpoint")
	path, err := filepath.Abs(n.settings.file)
	if err != nil {
		return nil, group.Errorf("file", diag.CodeBadValue, "%v", err)
	}
	c, release, err := node.Acquire(n.init.Pool, "positions "+path, func() (*claim, error) {
		lock, err := vfs.OS{}.Lock(path + ".lock")
		if errors.Is(err, vfs.ErrLocked) {
			err = errors.New("another program keeps its positions there")
		}
		return &claim{lock, n.seat, n.init.Node.String()}, err
	})
	if err != nil {
		return nil, group.Errorf("file", diag.CodeBadValue, "%v", err).WithHint("give each source a file of its own, in a folder that exists")
	}
	if c.seat != n.seat {
		err = group.Errorf("file", diag.CodeBadValue, "node %q keeps its positions there", c.by).WithHint("give each source a file of its own")
		return nil, errors.Join(err, release())
	}
	check := keeper{path: path}
	var damaged *damagedError
	switch err := check.load(); {
	case errors.As(err, &damaged):
		d := group.Errorf("file", diag.CodeBadValue, "%v", err).WithHint("restore it, or remove it to begin again")
		return nil, errors.Join(d, release())
	case err != nil:
		d := group.Errorf("file", diag.CodeBadValue, "%v", err).WithHint("name a file that the program may read and replace")
		return nil, errors.Join(d, release())
	}
	return release, nil
}
