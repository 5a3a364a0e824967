package stream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// LettersPositions is the file that keeps how far a source has read a file of dead letters.
func LettersPositions(letters string, n node.Ref) string {
	return letters + "." + url.PathEscape(n.String()) + ".pos"
}

// again returns the node of a source that reads its dead letters from a file, in place of
// its system: see [node.Job].Letters. All else is as the node has it.
func (s Source) again(init *node.Init, set *settings) *sourceNode {
	s.Traits = Traits{Positions: true, Checkpoints: true, Raw: s.Traits.Raw}
	set.letters, set.job, set.maxDead = true, true, init.Job.MaxDead
	set.file, set.named, set.interval = LettersPositions(init.Job.Letters, init.Node), "", 100*time.Millisecond
	return &sourceNode{
		source: &s, settings: set, init: init, log: init.Log, letters: init.ErrorLinks > 0, ends: true, finished: make(chan struct{}),
		reader: &letterReader{path: init.Job.Letters, node: init.Node.String()},
	}
}

// TakesLetters reports whether a node that was made for a [node.Job] with Letters reads
// them: whether it is a source.
func TakesLetters(n node.Node) bool {
	s, ok := n.(*sourceNode)
	return ok && s.settings.letters
}

// A letterReader reads the dead letters of one source from a file, one a line.
type letterReader struct {
	path, node string
	file       *os.File
	lines      *bufio.Reader
	at         atomic.Int64 // bytes that were read
	size       atomic.Int64
}

// Connect implements [Reader].
func (r *letterReader) Connect(context.Context, Host) (err error) {
	if r.file, err = os.Open(r.path); err != nil {
		return &RefusedError{Err: err}
	}
	info, err := r.file.Stat()
	if err == nil {
		r.size.Store(info.Size())
		_, err = r.file.Seek(r.at.Load(), io.SeekStart)
	}
	if err == nil && info.Size() < r.at.Load() {
		err = errors.New("it has less than was read of it before")
	}
	if err != nil {
		return &RefusedError{Err: errors.Join(fmt.Errorf("%s: %w", r.path, err), r.file.Close())}
	}
	r.lines = bufio.NewReaderSize(r.file, 64<<10)
	return nil
}

// Read implements [Reader]. A line is a message, unless it is a letter of another source.
func (r *letterReader) Read(ctx context.Context, room Room) (messages []Message, err error) {
	size := int64(0)
	for len(messages) < room.Messages && (len(messages) == 0 || size < room.Bytes) {
		line, err := r.lines.ReadBytes('\n')
		if err == io.EOF && len(line) > 0 {
			if _, bad := value.ParseJSON(line); bad == nil {
				err = nil // the last letter without the end of its line
			}
		}
		if err != nil || ctx.Err() != nil {
			return messages, errors.Join(err, ctx.Err())
		}
		end := r.at.Add(int64(len(line)))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		letter, bad := value.ParseJSON(line)
		if from, ok := letter.Get("node"); bad == nil && ok && from.String() != r.node {
			continue
		}
		messages = append(messages, Message{Raw: line, Offset: end, Token: end})
		size += int64(len(line))
	}
	return messages, nil
}

// Settle implements [Reader]: the file does not know.
func (r *letterReader) Settle(context.Context, Settled) error { return nil }

// Fields implements [Reader]. They describe a line that is not a letter.
func (r *letterReader) Fields(m *Message, b *value.MapBuilder) {
	b.Set("id", value.String(fmt.Sprintf("%s:%d", r.path, m.Offset)))
	b.Set("path", value.String(r.path))
}

func (r *letterReader) Close(context.Context) error { return r.file.Close() }

// Position implements [Resumer].
func (r *letterReader) Position(m Mark) (lane, position string) {
	return "letters", strconv.FormatInt(m.Token.(int64), 10)
}

// Resume implements [Resumer].
func (r *letterReader) Resume(positions map[string]string) error {
	at, err := strconv.ParseInt(positions["letters"], 10, 64)
	if err != nil || at < 0 {
		return fmt.Errorf("the position %q is not a number of bytes", positions["letters"])
	}
	r.at.Store(at)
	return nil
}

// Size implements [Sized].
func (r *letterReader) Size() (done, total int64) { return r.at.Load(), r.size.Load() }
