package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A writing is a sink that a test writes to.
type writing struct {
	t    testing.TB
	sink *sink
	log  bytes.Buffer
}

func newWriting(t testing.TB, config string) *writing {
	t.Helper()
	w := &writing{t: t}
	made, err := openFileSink(initOf(t, sinkConfig(), config, &w.log))
	if err != nil {
		t.Fatal(err)
	}
	w.sink = made.(*sink)
	if err := w.sink.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}

func (w *writing) close() {
	if w.sink == nil {
		return
	}
	if err := w.sink.Close(context.Background()); err != nil {
		w.t.Error(err)
	}
	w.sink = nil
}

// sinkConfig are the fields of the sink, with the common one that it reads.
func sinkConfig() schema.Object {
	return fileSink().Config.With(schema.Enum("answer", "none", "receipt").Default("none"))
}

// write writes values of JSON, each with its path, and returns their errors.
func (w *writing) write(path string, values ...string) string {
	w.t.Helper()
	records := make([]stream.Record, len(values))
	for i, text := range values {
		v, err := value.ParseJSON([]byte(text))
		if err != nil {
			w.t.Fatal(err)
		}
		records[i] = stream.Record{Body: v, Texts: []string{path}}
	}
	var wg sync.WaitGroup
	wg.Add(len(records))
	errs := make([]error, len(records))
	w.sink.Write(w.t.Context(), records, func(i int, _ value.Value, err error) {
		if i == stream.Rest {
			wg.Add(-len(records))
			return
		}
		errs[i] = err
		wg.Done()
	})
	wg.Wait()
	var out []string
	for i, err := range errs {
		if err != nil {
			out = append(out, fmt.Sprintf("%d: %v", i, err))
		}
	}
	return strings.Join(out, "\n")
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFileSink(t *testing.T) {
	f := func(config, before string, values []string, want, wantErr string) {
		t.Helper()
		folder(t)
		if before != "" {
			write(t, "out", before)
		}
		w := newWriting(t, config)
		same(t, config+" errors", w.write("out", values...), wantErr)
		same(t, config, read(t, "out"), want)
	}
	f(`{"path": "out"}`, "", []string{`{"a":1}`, `"x"`}, "{\"a\":1}\n\"x\"\n", "")
	f(`{"path": "out"}`, "1\n", []string{"2"}, "1\n2\n", "")
	f(`{"path": "out", "append": false}`, "1\n", []string{"2"}, "2\n", "")
	f(`{"path": "out"}`, "1\n{\"a", []string{"2"}, "1\n2\n", "")
	f(`{"path": "out"}`, "1\n{\"a\":1}", []string{"2"}, "1\n{\"a\":1}\n2\n", "")
	f(`{"path": "out"}`, "{\"a"+strings.Repeat("x", 100_000), []string{"2"}, "2\n", "")
	f(`{"path": "out", "encode": "text"}`, "torn", []string{`"x"`, "[1]"}, "torn\nx\n[1]\n", "")
	f(`{"path": "out", "encode": "raw"}`, "torn", []string{`"x"`, "1", `"y"`}, "tornxy", "1: want text or binary, got integer [encode]")
	f(`{"path": "out", "encode": "csv"}`, "", []string{`{"a":1,"b":null}`, `{"b":"x,y"}`, `{"c":1}`}, "a,b\n1,\n,\"x,y\"\n", "2: the field \"c\" is not one of the columns [encode]")
	f(`{"path": "out", "encode": "csv"}`, "b,a\n1,2\n", []string{`{"a":1}`}, "b,a\n1,2\n,1\n", "")
	f(`{"path": "out", "encode": "csv", "columns": "a", "delimiter": ";"}`, "", []string{`{"a":"1;2"}`}, "a\n\"1;2\"\n", "")
	f(`{"path": "out", "fsync": "each"}`, "", []string{"1", "2"}, "1\n2\n", "")
	big := `"` + strings.Repeat("x", 8<<20) + `"`
	f(`{"path": "out"}`, "", []string{big, `""`, "null"}, big+"\n\"\"\nnull\n", "")
}

// TestFileSinkPaths writes to the paths of records, as far as these stay in the folder.
func TestFileSinkPaths(t *testing.T) {
	folder(t)
	w := newWriting(t, `{"path": "out/${self.a}/x"}`)
	f := func(path, wantErr string) {
		t.Helper()
		same(t, path, w.write(path, "1"), wantErr)
	}
	f("out/kr/x", "")
	f("out/kr/../fr/x", "")
	f("out/../x", `0: the path "x" is not in the folder out [path]`)
	f("out", `0: the path "out" is not in the folder out [path]`)
	f("/etc/x", `0: the path "/etc/x" is not in the folder out [path]`)
	f("out/a\x00b", `0: the path "out/a\x00b" is not in the folder out [path]`)
	f("out/"+strings.Repeat("a/", maxDepth+1)+"x", `0: the path "out/`+strings.Repeat("a/", maxDepth+1)+`x" has more than 32 folders below out [path]`)
	f("out/"+strings.Repeat("a/", maxDepth)+"x", "")
	for link, to := range map[string]string{"out/folder": "/tmp", "out/file": "elsewhere", "out/a/up": ".."} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	f("out/folder/x", `0: the path "out/folder/x" leads through the link out/folder [path]`)
	f("out/file", `0: the path "out/file" leads through the link out/file [path]`)
	f("out/a/up/x", `0: the path "out/a/up/x" leads through the link out/a/up [path]`)
	for i := range 3 * maxOpen {
		f(fmt.Sprintf("out/%d", i), "")
	}
	w.sink.evictAll()
	if got := w.sink.mu.open.Len(); got != maxOpen {
		t.Errorf("got %d open files, want %d", got, maxOpen)
	}
	f("out/0", "")
	same(t, "a file that was closed", read(t, "out/0"), "1\n1\n")

	w = newWriting(t, `{"path": "${self.a}"}`)
	f("x", "")
	f("../x", `0: the path "../x" is not in the folder . [path]`)
}

func TestFileSinkRefuses(t *testing.T) {
	folder(t, "file", "")
	if err := os.Mkdir("dir", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo("pipe", 0o666); err != nil {
		t.Fatal(err)
	}
	f := func(path, want string) {
		t.Helper()
		w, err := openFileSink(initOf(t, sinkConfig(), fmt.Sprintf(`{"path": %q}`, path), io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		err = w.Connect(t.Context())
		var refused *stream.RefusedError
		if !errors.As(err, &refused) || refused.Field != "path" || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	f("dir", "dir is a folder; name a file in it")
	f("pipe", "pipe is a named pipe, not a file; a program can be written to through the kind stdout")
	f("/dev/null", "/dev/null is a device")
	f("file/x", "mkdir file: not a directory")
}

// TestFileSinkRotates begins other files, and keeps some.
func TestFileSinkRotates(t *testing.T) {
	folder(t, "out/other.txt", "", "out/x.20260105T100000.000Z.log", "old\n", "out/x.y.log", "")
	w := newWriting(t, `{"path": "out/x.log", "rotate": {"bytes": 4, "keep": 2}}`)
	same(t, "errors", w.write("", "1", "2", "3", "4", `"long"`, "5"), "")
	names, err := filepath.Glob("out/x.2*.log")
	if err != nil || len(names) != 2 {
		t.Fatalf("got %v, want 2", names)
	}
	same(t, "files", read(t, names[0])+"|"+read(t, names[1])+"|"+read(t, "out/x.log"), "3\n4\n|\"long\"\n|5\n")
	same(t, "others", read(t, "out/other.txt")+read(t, "out/x.y.log"), "")

	if err := os.Rename("out/x.log", "out/moved"); err != nil { // as logrotate does
		t.Fatal(err)
	}
	for _, out := range w.sink.mu.open.Values() {
		out.(*output).checked = time.Time{}
	}
	same(t, "errors", w.write("", "6"), "")
	same(t, "the next file", read(t, "out/x.log"), "6\n")
	if period(time.Unix(100, 5), time.Minute) != time.Unix(60, 0) {
		t.Error("a period does not begin with its minute")
	}
}

// TestFileSinkFull has a disk that fills up, and gets room again.
func TestFileSinkFull(t *testing.T) {
	for _, config := range []string{`{"path": "out"}`, `{"path": "out", "fsync": "each"}`, `{"path": "out", "encode": "csv", "columns": "a"}`} {
		folder(t)
		w := newWriting(t, config)
		csv := strings.Contains(config, "csv")
		row := func(s string) string {
			if csv {
				return `["` + s + `"]`
			}
			return `"` + s + `"`
		}
		long := strings.Repeat("x", 1000)
		same(t, "before", w.write("", row("1")), "")
		limitFileSize(t, 1500)
		if got := w.write("", row(long), row(long), row("2")); !strings.HasPrefix(got, "1: write out: file too large [full]\n2: ") {
			t.Errorf("%s: got %s", config, got)
		}
		limitFileSize(t, 1<<40)
		same(t, "after", w.write("", row(long), row("2")), "")
		want := "\"1\"\n\"" + long + "\"\n\"" + long + "\"\n\"2\"\n"
		if csv {
			want = "a\n" + strings.ReplaceAll(want, `"`, "")
		}
		same(t, config, read(t, "out"), want)
		w.close()
	}
}

// limitFileSize makes writing behind an offset fail, in all of this process.
func limitFileSize(t *testing.T, bytes uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = min(bytes, limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
}

// TestFileSinkShared lets two sinks write one file, as two generations do.
func TestFileSinkShared(t *testing.T) {
	folder(t)
	a, b := newWriting(t, `{"path": "out", "append": false}`), newWriting(t, `{"path": "out", "append": false}`)
	var wg sync.WaitGroup
	for i, w := range []*writing{a, b} {
		wg.Go(func() {
			for j := range 500 {
				if got := w.write("", fmt.Sprintf(`"%d %d"`, i, j)); got != "" {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
	a.close()
	same(t, "errors", b.write("", `"end"`), "")
	lines := strings.Split(strings.TrimSuffix(read(t, "out"), "\n"), "\n")
	next := [2]int{}
	for _, line := range lines[:len(lines)-1] {
		var i, j int
		if _, err := fmt.Sscanf(line, `"%d %d"`, &i, &j); err != nil || next[i] != j {
			t.Fatalf("got %q, want number %v: %v", line, next, err)
		}
		next[i]++
	}
	if len(lines) != 1001 || lines[1000] != `"end"` {
		t.Errorf("got %d lines, the last one %s", len(lines), lines[len(lines)-1])
	}
}

// TestFileSinkReceipt checks that receipts say where records are.
func TestFileSinkReceipt(t *testing.T) {
	folder(t, "out", "12\n")
	w := newWriting(t, `{"path": "out", "answer": "receipt"}`)
	got := make([]string, 2)
	var wg sync.WaitGroup
	wg.Add(2)
	w.sink.Write(t.Context(), []stream.Record{{Body: value.Int(1)}, {Body: value.Int(2)}}, func(i int, receipt value.Value, _ error) {
		got[i] = receipt.String()
		wg.Done()
	})
	wg.Wait()
	same(t, "receipts", strings.Join(got, " "), `{"path":"out","offset":3} {"path":"out","offset":5}`)
}
