package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// inputOf makes a pipe the standard input, until the test ends.
func inputOf(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = r
	t.Cleanup(func() {
		os.Stdin = before
		if err := errors.Join(r.Close(), w.Close()); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
		inputLeft.at, inputLeft.bytes, inputLeft.columns = position{}, nil, nil
	})
	return w
}

func openStdin(t *testing.T, config string) *stdin {
	t.Helper()
	r, err := stdinSource().Open(initOf(t, stdinSource().Config, config, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Connect(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return r.(*stdin)
}

func readStdin(t *testing.T, s *stdin, n int) (string, []stream.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []stream.Message
	for len(all) != n {
		messages, err := s.Read(ctx, stream.Room{Messages: 100, Bytes: 1 << 20})
		all = append(all, messages...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	for i := range all {
		m := &all[i]
		v, err := s.Decode(m)
		if err != nil {
			out = append(out, "error: "+err.Error())
			continue
		}
		var b value.MapBuilder
		s.Fields(m, &b)
		id, _ := b.Build().Get("id")
		out = append(out, fmt.Sprintf("%v %v", id, v))
	}
	return strings.Join(out, "\n"), all
}

func put(t *testing.T, w *os.File, text string) {
	t.Helper()
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// TestStdin reads the input, and stops while it waits for more. The next node gets what
// was not settled.
func TestStdin(t *testing.T) {
	w := inputOf(t)
	s := openStdin(t, `{"format": "csv"}`)
	put(t, w, "a,b\n1,2\n3,4\n5")
	got, messages := readStdin(t, s, 2)
	same(t, "first", got, "stdin:4 {\"a\":\"1\",\"b\":\"2\"}\nstdin:8 {\"a\":\"3\",\"b\":\"4\"}")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Read(ctx, stream.Room{Messages: 1, Bytes: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stopped: got %v", err)
	}
	other, err := stdinSource().Open(initOf(t, stdinSource().Config, `{}`, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Connect(t.Context(), nil); err == nil || err.Error() != "another node reads the standard input" {
		t.Errorf("a second node: got %v", err)
	}
	if err := s.Settle(t.Context(), stream.Settled{Marks: []stream.Mark{{Token: messages[0].Token}}}); err != nil {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}

	s = openStdin(t, `{"format": "csv"}`)
	put(t, w, ",6\nragged\n7,8")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, _ = readStdin(t, s, -1)
	same(t, "the next node", got, "stdin:8 {\"a\":\"3\",\"b\":\"4\"}\nstdin:12 {\"a\":\"5\",\"b\":\"6\"}\nerror: stdin:5: the row has 1 fields, and there are 2 columns\nstdin:23 {\"a\":\"7\",\"b\":\"8\"}")
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// outputPipe makes a pipe the standard output, until the test ends.
func outputPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = w
	t.Cleanup(func() {
		os.Stdout = before
		if err := errors.Join(r.Close(), w.Close()); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return r
}

func openStdout(t *testing.T, config string, log io.Writer) *writing {
	t.Helper()
	kind := stdoutSink()
	made, err := kind.Open(initOf(t, kind.Config.With(schema.Enum("answer", "none", "receipt").Default("none")), config, log))
	if err != nil {
		t.Fatal(err)
	}
	w := &writing{t: t, sink: made.(*sink)}
	if err := w.sink.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}

// TestStdout writes whole lines of two nodes.
func TestStdout(t *testing.T) {
	r := outputPipe(t)
	a, b := openStdout(t, `{"encode": "csv"}`, io.Discard), openStdout(t, `{}`, io.Discard)
	same(t, "errors", a.write("", `{"x":1}`, `{"x":2}`, `3`), "2: want a map or a list for a row of CSV, got integer [encode]")
	same(t, "errors", b.write("", `{"x":3}`), "")
	buf := make([]byte, 100)
	n, err := r.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "output", string(buf[:n]), "x\n1\n2\n{\"x\":3}\n")

	var wg sync.WaitGroup
	line := `"` + strings.Repeat("x", 5000) + `"`
	for range 2 {
		wg.Go(func() {
			for range 50 {
				if got := b.write("", line); got != "" {
					t.Error(got)
				}
			}
		})
		wg.Go(func() {
			for range 50 {
				if got := a.write("", "["+line+"]"); got != "" {
					t.Error(got)
				}
			}
		})
	}
	var got bytes.Buffer
	if _, err := io.CopyN(&got, r, 100*5003+100*5001); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for out := range strings.Lines(got.String()) {
		if out != line+"\n" && out != strings.Trim(line, `"`)+"\n" {
			t.Fatalf("got a line of %d bytes", len(out))
		}
	}
}

// TestStdoutClosed ends the program when nothing reads its output.
func TestStdoutClosed(t *testing.T) {
	r := outputPipe(t)
	var log bytes.Buffer
	w := openStdout(t, `{}`, &log)
	ended := 0
	out, _ := w.sink.mu.open.Get("")
	out.(*console).terminate = func() error { ended++; return nil }
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	same(t, "first", w.write("", "1"), "0: the standard output is closed [closed]")
	same(t, "second", w.write("", "2"), "0: the standard output is closed [closed]")
	w.close()
	if ended != 1 || !strings.Contains(log.String(), "the program ends") {
		t.Errorf("asked %d times to end, with the log %s", ended, &log)
	}
}

// TestWatch reports what becomes of files.
func TestWatch(t *testing.T) {
	folder(t, "dir/a.txt", "1", "dir/b.txt", "1", "dir/c.md", "1")
	open := func(config string) *watch {
		t.Helper()
		r, err := openWatch(initOf(t, watchSource().Config, config, io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Connect(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		return r.(*watch)
	}
	changes := func(w *watch, n int) string {
		t.Helper()
		var out []string
		for len(out) < n {
			messages, err := w.Read(t.Context(), stream.Room{Messages: 1})
			if err != nil {
				t.Fatal(err)
			}
			for i := range messages {
				path, _ := messages[i].Body.Get("path")
				change, _ := messages[i].Body.Get("change")
				size, _ := messages[i].Body.Get("size")
				out = append(out, fmt.Sprintf("%v %v %v", path, change, size))
			}
		}
		return strings.Join(out, "\n")
	}
	same(t, "existing", changes(open(`{"paths": "dir/*.txt", "existing": true}`), 2), "dir/a.txt created 1\ndir/b.txt created 1")
	w := open(`{"paths": "dir/*.txt", "delay": "10ms", "rescan": "50ms"}`)
	write(t, "dir/a.tmp", "12")
	if err := os.Rename("dir/a.tmp", "dir/a.txt"); err != nil { // in one step
		t.Fatal(err)
	}
	same(t, "changed", changes(w, 1), "dir/a.txt changed 2")
	if err := os.Rename("dir/b.txt", "dir/d.txt"); err != nil {
		t.Fatal(err)
	}
	same(t, "renamed", changes(w, 2), "dir/b.txt removed null\ndir/d.txt created 1")
	write(t, "dir/e.md", "")
	write(t, "dir/e.txt", "")
	same(t, "made", changes(w, 1), "dir/e.txt created 0")
}
