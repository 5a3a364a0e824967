package stream

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// A keeper keeps the positions of a consumer in a file. The goroutine that connects calls
// resume, and later the one that settles calls keep.
type keeper struct {
	path      string
	owner     owner
	positions map[string]string
}

// An owner is the source that a file of positions belongs to.
type owner struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Node      string `json:"node,omitempty"` // empty for a node without a name
}

func ownerOf(n node.Ref) owner { return owner{n.Kind, n.Namespace, n.Name} }

func (o owner) String() string {
	if o.Node == "" {
		return "a " + o.Kind + " without a name"
	}
	return fmt.Sprintf("the %s %q", o.Kind, o.Node)
}

// kept is what the file holds, as JSON. The file of a revision before there was a sum has
// positions alone; it is replaced by the first commit.
type kept struct {
	Source    json.RawMessage `json:"source,omitempty"` // an owner
	Positions json.RawMessage `json:"positions"`        // a map of texts
	Sum       string          `json:"sum,omitempty"`
}

// sum returns a checksum of the source and the positions, whatever white space is there.
func (k *kept) sum() (string, error) {
	text, err := json.Marshal(kept{Source: k.Source, Positions: k.Positions})
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:16]), err
}

// text returns what the file has to hold.
func (k *keeper) text() (text []byte, err error) {
	var file kept
	if file.Source, err = json.Marshal(k.owner); err == nil {
		file.Positions, err = json.Marshal(k.positions)
	}
	if err == nil {
		file.Sum, err = file.sum()
	}
	if err == nil {
		text, err = json.MarshalIndent(file, "", "  ")
	}
	return append(text, '\n'), err
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
	var by *owner
	if by, k.positions, err = readKept(text); err != nil {
		return &damagedError{k.path, err}
	}
	if by != nil && *by != k.owner {
		return &ownedError{k.path, *by, k.owner}
	}
	return nil
}

// readKept reads the text of a file. One without a sum names no owner.
func readKept(text []byte) (by *owner, positions map[string]string, err error) {
	var file kept
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, errors.New("something comes after its end")
	}
	if err := json.Unmarshal(file.Positions, &positions); err != nil || positions == nil {
		return nil, nil, errors.Join(errors.New("it has no positions"), err)
	}
	switch sum, err := file.sum(); {
	case err != nil:
		return nil, nil, err
	case file.Sum == "" && file.Source == nil:
		return nil, positions, nil
	case file.Sum != sum:
		return nil, nil, errors.New("what it has is not what was written: its checksum does not fit")
	}
	by = new(owner)
	return by, positions, json.Unmarshal(file.Source, by)
}

// A damagedError says that a file is not one of positions.
type damagedError struct {
	path string
	err  error
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("%s is damaged, or not a file of positions: %v", e.path, e.err)
}

// An ownedError says that a file has the positions of another source.
type ownedError struct {
	path     string
	by, want owner
}

func (e *ownedError) Error() string {
	text := fmt.Sprintf("%s has the positions of %s, and not of %s", e.path, e.by, e.want)
	if e.by.Namespace != e.want.Namespace {
		text += fmt.Sprintf(": of the namespace %q, and not %q", e.by.Namespace, e.want.Namespace)
	}
	return text
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
	if mover, ok := r.(mover); ok {
		for lane, position := range mover.Moved() {
			k.put(lane, position)
		}
	}
	for _, m := range marks {
		k.put(r.Position(m))
	}
	text, err := k.text()
	if err != nil {
		return err
	}
	if err := replaceFile(k.path, text); err != nil {
		return fmt.Errorf("keeping positions: %w", err)
	}
	return nil
}

// put notes a position; an empty one forgets the lane.
func (k *keeper) put(lane, position string) {
	if position == "" {
		delete(k.positions, lane)
		return
	}
	k.positions[lane] = position
}

// A mover is a [Resumer] whose lanes get other names, or come to an end. Moved returns the
// positions that have changed so since the last call, by lane; positions of marks go over them.
type mover interface{ Moved() map[string]string }

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
	shared    *shared
	by        string
}

// claim takes the file of positions for the nodes of one name, and checks it. Two sources would
// overwrite the positions of each other.
func (n *sourceNode) claim() (release func() error, err error) {
	group, field := n.init.Config.Find(n.settings.named)
	path, err := filepath.Abs(n.settings.file)
	if err != nil {
		return nil, group.Errorf(field, diag.CodeBadValue, "%v", err)
	}
	c, release, err := node.Acquire(n.init.Pool, "positions "+path, func() (*claim, error) {
		lock, err := vfs.OS{}.Lock(path + ".lock")
		if errors.Is(err, vfs.ErrLocked) {
			err = errors.New("another program keeps its positions there")
		}
		return &claim{lock, n.shared, n.init.Node.String()}, err
	})
	if err != nil {
		return nil, group.Errorf(field, diag.CodeBadValue, "%v", err).WithHint("give each source a file of its own, in a folder that exists")
	}
	if c.shared != n.shared {
		err = group.Errorf(field, diag.CodeBadValue, "node %q keeps its positions there", c.by).WithHint("give each source a file of its own")
		return nil, errors.Join(err, release())
	}
	check := keeper{path: path, owner: ownerOf(n.init.Node)}
	if err := check.load(); err != nil {
		hint := "name a file that the program may read and replace"
		if _, ok := errors.AsType[*damagedError](err); ok {
			hint = "restore it from a copy, or remove it to read from the beginning again"
		} else if _, ok := errors.AsType[*ownedError](err); ok {
			hint = "give each source a file of its own; to hand these positions over, as to a node that was renamed, remove source and sum from the file"
		}
		d := group.Errorf(field, diag.CodeBadValue, "%v", err).WithHint("%s", hint)
		return nil, errors.Join(d, release())
	}
	return release, nil
}
