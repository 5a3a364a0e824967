//go:build unix

package files_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/files"
	"github.com/uniflow-labs/uniflow/value"
)

// oneByOne runs each row alone, as all of a program share its standard input and output.
func oneByOne(t *testing.T, s streamtest.Subject, rows ...streamtest.Row) {
	s.Without = without(map[streamtest.Row]string{
		streamtest.Kill:     "The kit talks with its child over the standard input and output.",
		streamtest.Password: "The standard input and output have no credentials.",
		streamtest.Durable:  "What is read is counted from the start of the program, so nothing tells a message that comes again.",
	})
	for _, row := range rows {
		t.Run(string(row), func(t *testing.T) {
			alone := s
			alone.Without = map[streamtest.Row]string{}
			for other, why := range s.Without {
				alone.Without[other] = why
			}
			for _, other := range rows {
				if other != row {
					alone.Without[other] = "It runs alone."
				}
			}
			streamtest.Run(t, alone)
		})
	}
}

// TestStdinKit reads a pipe that has room for all that is produced. What is not settled
// goes to the next node.
func TestStdinKit(t *testing.T) {
	oneByOne(t, streamtest.Subject{
		Kinds: files.Defs(options), Source: true,
		System: func(t testing.TB) *streamtest.System {
			in := newEndlessPipe(t)
			before := os.Stdin
			os.Stdin = in.r
			t.Cleanup(func() {
				os.Stdin = before
				in.close()
				files.ForgetStdin()
			})
			return &streamtest.System{
				Source: func(string) map[string]any {
					return map[string]any{"kind": "stdin", "format": "ndjson", "max_record": "64MiB"}
				},
				Produce: func(_ testing.TB, messages []streamtest.Message) {
					var text []byte
					for _, m := range messages {
						if len(m.Body) == 0 {
							m.Body = []byte(`""`) // an empty line is not a message
						}
						text = append(append(text, m.Body...), '\n')
					}
					in.put(text)
				},
			}
		},
	}, streamtest.Acknowledgement, streamtest.Errors, streamtest.Order, streamtest.OrderOfBatches, streamtest.Backlog, streamtest.Reloads,
		streamtest.Changes, streamtest.Drain, streamtest.Grace, streamtest.Poison, streamtest.Bodies)
}

// An endlessPipe is a pipe whose writer never waits.
type endlessPipe struct {
	testing.TB
	r, w   *os.File
	writer sync.WaitGroup
	mu     sync.Mutex
	more   *sync.Cond
	text   []byte
	over   bool
}

func newEndlessPipe(t testing.TB) *endlessPipe {
	t.Helper()
	p := &endlessPipe{TB: t}
	p.more = sync.NewCond(&p.mu)
	var err error
	if p.r, p.w, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	p.writer.Go(p.write)
	return p
}

func (p *endlessPipe) put(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, text...)
	p.more.Signal()
}

func (p *endlessPipe) write() {
	for {
		p.mu.Lock()
		for len(p.text) == 0 && !p.over {
			p.more.Wait()
		}
		text, over := p.text, p.over
		p.text = nil
		p.mu.Unlock()
		if over {
			return
		}
		if _, err := p.w.Write(text); err != nil && !errors.Is(err, os.ErrClosed) {
			p.Error(err)
			return
		}
	}
}

func (p *endlessPipe) close() {
	p.mu.Lock()
	p.over = true
	p.more.Signal()
	p.mu.Unlock()
	if err := errors.Join(p.w.Close(), p.r.Close()); err != nil {
		p.Error(err)
	}
	p.writer.Wait()
}

// TestStdoutKit writes to a file in place of the standard output.
func TestStdoutKit(t *testing.T) {
	oneByOne(t, streamtest.Subject{
		Kinds: files.Defs(options), Sink: true,
		System: func(t testing.TB) *streamtest.System {
			path := filepath.Join(t.TempDir(), "out")
			out, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			before := os.Stdout
			os.Stdout = out
			t.Cleanup(func() {
				os.Stdout = before
				if err := out.Close(); err != nil {
					t.Error(err)
				}
			})
			return &streamtest.System{
				Sink: func(string) map[string]any { return map[string]any{"kind": "stdout"} },
				Consume: func(t testing.TB) [][]byte {
					text, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					lines := bytes.Split(text, []byte{'\n'})
					return lines[:len(lines)-1]
				},
				Reject: func() value.Value { // infinite numbers are not JSON
					zero := 0.0
					return value.Map(value.Field{Name: "body", Value: value.Float(1 / zero)})
				},
			}
		},
	}, streamtest.Acknowledgement, streamtest.Reloads, streamtest.Changes, streamtest.Drain, streamtest.Grace, streamtest.Bodies, streamtest.Parts)
}
