package files

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// initOf returns what a connector is opened with, for a config as JSON.
func initOf(t testing.TB, fields schema.Object, config string, log io.Writer) *node.Init {
	t.Helper()
	v, err := value.ParseJSON([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, findings := fields.Decode(schema.RawOf(v))
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return &node.Init{Config: c, Log: slog.New(slog.NewTextHandler(log, nil)), Clock: node.SystemClock{}}
}

// A reading is a source that a test reads.
type reading struct {
	t      testing.TB
	source *source
	log    bytes.Buffer
	marks  map[string]string // what a checkpoint has
	ended  bool
}

func newReading(t testing.TB, config string, marks map[string]string) *reading {
	t.Helper()
	r := &reading{t: t, marks: map[string]string{}}
	reader, err := openFileSource(initOf(t, fileSource().Config, config, &r.log))
	if err != nil {
		t.Fatal(err)
	}
	r.source = reader.(*source)
	for lane, at := range marks {
		r.marks[lane] = at
	}
	if err := r.source.Resume(marks); err != nil {
		t.Fatal(err)
	}
	if err := r.source.Connect(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

func (r *reading) close() {
	if r.source == nil {
		return
	}
	if err := r.source.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
	r.source = nil
}

// read reads n messages, or up to the end if n is negative, and settles them. It returns
// their lines, as id-less texts.
func (r *reading) read(n int) string {
	r.t.Helper()
	messages := r.messages(n)
	r.settle(messages)
	return r.text(messages)
}

func (r *reading) messages(n int) (all []stream.Message) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	for len(all) != n {
		room := 1000
		if n >= 0 {
			room = n - len(all)
		}
		messages, err := r.source.Read(ctx, stream.Room{Messages: room, Bytes: 1 << 20})
		all = append(all, messages...)
		if err == io.EOF {
			r.ended = true
			return all
		}
		if err != nil {
			r.t.Fatalf("%v after %s\n%s", err, r.text(all), &r.log)
		}
	}
	return all
}

func (r *reading) text(messages []stream.Message) string {
	var out []string
	for i := range messages {
		m := &messages[i]
		v, err := r.source.Decode(m)
		var b value.MapBuilder
		r.source.Fields(m, &b)
		fields := b.Build()
		path, _ := fields.Get("path")
		line, _ := fields.Get("line")
		if err != nil {
			out = append(out, "error: "+err.Error())
			continue
		}
		out = append(out, fmt.Sprintf("%s:%v %v", filepath.Base(path.String()), line, v))
	}
	return strings.ReplaceAll(strings.Join(out, "\n"), tempDir, "")
}

func (r *reading) settle(messages []stream.Message) {
	r.t.Helper()
	last := map[int32]stream.Mark{}
	for i := range messages {
		m := &messages[i]
		last[m.Lane] = stream.Mark{Lane: m.Lane, Offset: m.Offset, Token: m.Token}
	}
	var marks []stream.Mark
	for _, m := range last {
		marks = append(marks, m)
	}
	if err := r.source.Settle(r.t.Context(), stream.Settled{Marks: marks}); err != nil {
		r.t.Error(err)
	}
	if len(marks) > 0 { // as the runtime does
		for lane, at := range r.source.Moved() {
			r.put(lane, at)
		}
	}
	for _, m := range marks {
		lane, at := r.source.Position(m)
		r.put(lane, at)
	}
}

func (r *reading) put(lane, at string) {
	if r.marks[lane] = at; at == "" {
		delete(r.marks, lane)
	}
}

// tempDir is what text leaves out of paths.
var tempDir = os.TempDir()

// folder makes files in a temporary folder and changes to it.
func folder(t *testing.T, files ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for i := 0; i < len(files); i += 2 {
		write(t, files[i], files[i+1])
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot\n%s\nwant\n%s", what, got, want)
	}
}

func TestFileSource(t *testing.T) {
	f := func(config string, files []string, want string) {
		t.Helper()
		folder(t, files...)
		same(t, config, newReading(t, config, nil).read(-1), want)
	}
	f(`{"paths": "*.log"}`, []string{"b.log", "3\n4", "a.log", "1\r\n\n2\n", "c.txt", "no\n"}, "a.log:1 1\na.log:2 \na.log:3 2\nb.log:1 3\nb.log:2 4")
	f(`{"paths": ["b", "*"]}`, []string{"a", "1\n", "b", "2\n"}, "b:1 2\na:1 1")
	f(`{"paths": "*"}`, []string{"a.ndjson", "{\"a\":1}\n{\n[]\n", "b.csv", "x,y\n1,2\n1\n", "c.json", "{\n}\n", "d.tsv", "x\ty\n1\t2\n"},
		"a.ndjson:1 {\"a\":1}\nerror: a.ndjson:2: JSON, line 1, column 2: unexpected end, want a name in quotes\na.ndjson:3 []\n"+
			"b.csv:2 {\"x\":\"1\",\"y\":\"2\"}\nerror: b.csv:3: the row has 1 fields, and there are 2 columns\nc.json:1 {}\nd.tsv:2 {\"x\":\"1\",\"y\":\"2\"}")
	f(`{"paths": "a", "format": "csv", "columns": ["p", "q"], "delimiter": ";"}`, []string{"a", "1;2\n"}, "a:1 {\"p\":\"1\",\"q\":\"2\"}")
	f(`{"paths": "*", "format": "raw"}`, []string{"a", "1\n2", "b", ""}, "a:1 MQoy\nb:1 ")
	f(`{"paths": "a", "max_record": 4}`, []string{"a", "12345\n1234\n"}, "error: a:1: the record is longer than 4 bytes\na:2 1234")
	f(`{"paths": "a"}`, []string{"a", "x\n\xff\ny\n"}, "a:1 x\nerror: a:2: the text is not valid UTF-8\na:3 y")
	f(`{"paths": "*.csv"}`, []string{"a.csv", "x,x\n1,2\n", "b.csv", "x\n1\n"}, "error: a.csv:2: line 1 must have the names of the columns: two columns have the name \"x\"\nb.csv:2 {\"x\":\"1\"}")
	f(`{"paths": "none*"}`, nil, "")
	f(`{"paths": "a"}`, []string{"a", strings.Repeat("x", 8<<20) + "\n\n"}, "a:1 "+strings.Repeat("x", 8<<20)+"\na:2 ")
}

// TestFileSourcePacked reads compressed files, and goes on in their middle.
func TestFileSourcePacked(t *testing.T) {
	folder(t)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte("1\n2\n3\n"))
	_ = w.Close()
	write(t, "a.gz", z.String())
	write(t, "broken.gz", z.String()[:z.Len()-9])
	write(t, "c.gz", "plain text, not packed\n")
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, "b.ndjson.zst", string(enc.EncodeAll([]byte("{}\n[]\n"), nil)))
	r := newReading(t, `{"paths": ["a.gz", "b.ndjson.zst"]}`, nil)
	same(t, "first", r.read(2), "a.gz:1 1\na.gz:2 2")
	r.close()
	r = newReading(t, `{"paths": ["a.gz", "b.ndjson.zst"]}`, r.marks)
	same(t, "resumed", r.read(-1), "a.gz:3 3\nb.ndjson.zst:1 {}\nb.ndjson.zst:2 []")
	r = newReading(t, `{"paths": ["broken.gz", "c.gz"]}`, nil)
	got := r.read(-1)
	if !strings.HasSuffix(got, "error: broken.gz:4: the file is not complete, or not packed as its extension .gz says\nerror: c.gz:1: the file is not packed as its extension .gz says: gzip: invalid header") {
		t.Errorf("got\n%s", got)
	}
}

func TestFileSourceRefuses(t *testing.T) {
	folder(t, "dir/a", "1\n", "secret", "1\n")
	if err := syscall.Mkfifo("pipe", 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", "link"); err != nil {
		t.Fatal(err)
	}
	f := func(path, want string) {
		t.Helper()
		reader, err := openFileSource(initOf(t, fileSource().Config, fmt.Sprintf(`{"paths": %q}`, path), io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		err = reader.Connect(t.Context(), nil)
		var refused *stream.RefusedError
		if !errors.As(err, &refused) || refused.Field != "paths" || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
		if err := reader.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	f("dir", "dir is a folder; name the files in it, such as dir/*")
	f("pipe", "pipe is a named pipe, not a file; a program can be read through the kind stdin")
	f("nothing", "stat nothing: no such file or directory")
	f("link", "stat link: no such file or directory")

	r := newReading(t, `{"paths": "*"}`, nil)
	same(t, "the rest", r.read(-1), "secret:1 1")
	for _, what := range []string{"dir is a folder", "pipe is a named pipe"} {
		if !strings.Contains(r.log.String(), what) {
			t.Errorf("the log does not have %q:\n%s", what, &r.log)
		}
	}
}

func TestFileSourceConfig(t *testing.T) {
	f := func(config, want string) {
		t.Helper()
		_, err := openFileSource(initOf(t, fileSource().Config, config, io.Discard))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
	}
	f(`{"paths": "a[", "delimiter": "ab"}`, `the pattern "a[" is not complete`)
	f(`{"paths": "a", "delimiter": "ab"}`, `must be one ASCII character, got "ab"`)
	f(`{"paths": "a", "delimiter": "\""}`, "other than a quote")
	f(`{"paths": "a", "columns": ["x", "x"]}`, "two columns have the name")
	f(`{"paths": "a", "settled": "move"}`, "settled: move needs move_to")
	f(`{"paths": "in/*", "settled": "move", "move_to": "in"}`, "files would come back")
	f(`{"paths": "in/**", "settled": "move", "move_to": "in/done"}`, "files would come back")
	f(`{"paths": "in/**/*.csv", "settled": "move", "move_to": "in/done"}`, "files would come back")
}

// TestFileSourceSettled deletes and moves files that are settled, and no others.
func TestFileSourceSettled(t *testing.T) {
	folder(t, "in/a", "1\n2\n", "in/b", "3\n", "in/c", "", "in/bad.csv", "x,x\n", "done/b", "old")
	r := newReading(t, `{"paths": "in/*", "settled": "move", "move_to": "done"}`, nil)
	messages := r.messages(-1)
	r.settle(messages[:1])
	if got := paths(t, "."); got != "done/b done/c in/a in/b in/bad.csv" {
		t.Errorf("half-way: got %s", got)
	}
	r.settle(messages[1:])
	if got := paths(t, "."); got != "done/a done/b done/b.1 done/c in/bad.csv" {
		t.Errorf("in the end: got %s", got)
	}
	if len(r.marks) != 1 {
		t.Errorf("got positions %v, want the position of bad.csv", r.marks)
	}

	folder(t, "a", "1\n", "b", "2\n")
	r = newReading(t, `{"paths": ["a", "b"], "settled": "delete"}`, nil)
	messages = r.messages(-1)
	if err := os.Rename("a", "c"); err != nil { // it is not at its path any more
		t.Fatal(err)
	}
	write(t, "a", "new\n")
	r.settle(messages)
	if got := paths(t, "."); got != "a c" {
		t.Errorf("got %s", got)
	}
}

func paths(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// TestFileSourceResumes goes on where files were settled, and reads others from their
// beginning although they have their names.
func TestFileSourceResumes(t *testing.T) {
	folder(t, "a.csv", "x,y\n1,2\n3,4\n5,6\n", "b.csv", "x\n1\n")
	r := newReading(t, `{"paths": "*.csv"}`, nil)
	r.settle(r.messages(2)[:1]) // the second one was read and not settled
	r.close()
	r = newReading(t, `{"paths": "*.csv"}`, r.marks)
	same(t, "resumed", r.read(-1), "a.csv:3 {\"x\":\"3\",\"y\":\"4\"}\na.csv:4 {\"x\":\"5\",\"y\":\"6\"}\nb.csv:2 {\"x\":\"1\"}")
	r.close()
	appendTo(t, "a.csv", "7,8\n")
	write(t, "b.csv", "z\n9\n")
	r = newReading(t, `{"paths": "*.csv"}`, r.marks)
	same(t, "grown, and replaced in place", r.read(-1), "a.csv:5 {\"x\":\"7\",\"y\":\"8\"}\nb.csv:2 {\"z\":\"9\"}")
	r.close()
	if err := os.Rename("a.csv", "c.csv"); err != nil {
		t.Fatal(err)
	}
	appendTo(t, "c.csv", "9,10\n")
	r = newReading(t, `{"paths": "*.csv"}`, r.marks)
	same(t, "renamed", r.read(-1), "c.csv:6 {\"x\":\"9\",\"y\":\"10\"}")
}

const following = `{"paths": "*.log*", "follow": true, "idle": "50ms", "rescan": "20ms"}`

// TestFileSourceFollows reads what is appended, new files, and files that are rotated.
func TestFileSourceFollows(t *testing.T) {
	folder(t, "a.log", "1\n2")
	r := newReading(t, following, nil)
	same(t, "first", r.read(1), "a.log:1 1")
	appendTo(t, "a.log", "2\n")
	same(t, "the rest of a line", r.read(1), "a.log:2 22")
	write(t, "b.log", "b\n")
	same(t, "a new file", r.read(1), "b.log:1 b")
	if err := os.Rename("a.log", "a.log.1"); err != nil {
		t.Fatal(err)
	}
	appendTo(t, "a.log.1", "late\n")
	same(t, "a late line", r.read(1), "a.log.1:3 late")
	write(t, "a.log", "new\n")
	same(t, "the next file", r.read(1), "a.log:1 new")
	if err := os.Rename("a.log", "other"); err != nil { // matches no pattern
		t.Fatal(err)
	}
	appendTo(t, "other", "end")
	same(t, "a last line without its end", r.read(1), "a.log:2 end")
	write(t, "a.log", "third\n")
	same(t, "the third file", r.read(1), "a.log:1 third")
}

// TestFileSourceDeep reads files at any depth, also of folders that come later.
func TestFileSourceDeep(t *testing.T) {
	folder(t, "in/a.log", "1\n", "in/x/y/b.log", "2\n", "in/x/c.txt", "no\n")
	r := newReading(t, `{"paths": "in/**/*.log", "follow": true, "idle": "50ms", "rescan": "20ms"}`, nil)
	same(t, "the files that are there", r.read(2), "a.log:1 1\nb.log:1 2")
	write(t, "in/new/deep/c.log", "3\n")
	same(t, "a file of new folders", r.read(1), "c.log:1 3")
	appendTo(t, "in/x/y/b.log", "4\n")
	same(t, "what is appended", r.read(1), "b.log:2 4")
	appendTo(t, "in/new/deep/c.log", "5\n")
	same(t, "what is appended in a new folder", r.read(1), "c.log:2 5")
}

// TestFileSourceTruncated reads a file again that was truncated, also if it has as much
// as before.
func TestFileSourceTruncated(t *testing.T) {
	folder(t, "a.log", "1\n2\n")
	r := newReading(t, following, nil)
	messages := r.messages(2)
	before := id(r, &messages[0])
	write(t, "a.log", "3\n")
	after := r.messages(1)
	same(t, "shorter", r.text(after), "a.log:1 3")
	if got := id(r, &after[0]); got == before {
		t.Errorf("two messages have the id %s", got)
	}
	r.settle(after)
	r.settle(messages) // late
	write(t, "a.log", "4\n5\n6\n")
	same(t, "longer", r.read(3), "a.log:1 4\na.log:2 5\na.log:3 6")
	r.close()
	appendTo(t, "a.log", "7\n")
	r = newReading(t, following, r.marks)
	same(t, "resumed", r.read(1), "a.log:4 7")
	r.idle()
	appendTo(t, "a.log", "torn")
	r.idle()
	write(t, "a.log", "8\n")
	same(t, "within a record", r.read(2), "error: a.log:5: the file was truncated within the record\na.log:1 8")
}

func id(r *reading, m *stream.Message) string {
	var b value.MapBuilder
	r.source.Fields(m, &b)
	v, _ := b.Build().Get("id")
	return v.String()
}

// idle lets the source see what there is, which is not a record.
func (r *reading) idle() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if messages, err := r.source.Read(ctx, stream.Room{Messages: 1, Bytes: 1}); len(messages) > 0 || !errors.Is(err, context.DeadlineExceeded) {
		r.t.Fatalf("got %d messages, %v: %s\n%s", len(messages), err, r.text(messages), &r.log)
	}
}

// TestFileSourceSpool takes files of a folder as they come, and deletes them.
func TestFileSourceSpool(t *testing.T) {
	folder(t, "in/a", "1\n2")
	r := newReading(t, `{"paths": "in/*", "follow": true, "settled": "delete", "idle": "50ms", "rescan": "20ms"}`, nil)
	same(t, "first", r.read(2), "a:1 1\na:2 2")
	write(t, "in/b", "3\n")
	same(t, "second", r.read(1), "b:1 3")
	write(t, "in/c", "")
	for deadline := time.Now().Add(10 * time.Second); paths(t, ".") != ""; {
		if time.Now().After(deadline) {
			t.Fatalf("there is %s\n%s", paths(t, "."), &r.log)
		}
		r.idle()
	}
	for lane, at := range r.source.Moved() {
		r.put(lane, at)
	}
	if len(r.marks) != 0 {
		t.Errorf("got positions %v of files that were deleted", r.marks)
	}
}

// TestFileSourceSize knows how far it is.
func TestFileSourceSize(t *testing.T) {
	folder(t, "a", "1\n2\n", "b", "3\n")
	r := newReading(t, `{"paths": ["a", "b"]}`, nil)
	if done, total := r.source.Size(); done != 0 || total != 6 {
		t.Errorf("at first: got %d of %d", done, total)
	}
	r.read(-1)
	if done, total := r.source.Size(); done != 6 || total != 6 {
		t.Errorf("in the end: got %d of %d", done, total)
	}
}

// TestFileSourceTable reads rows of Parquet, and goes on in their middle.
func TestFileSourceTable(t *testing.T) {
	type row struct {
		ID    int64    `parquet:"id"`
		Price *float64 `parquet:"price,optional"`
	}
	folder(t, "c.parquet", "this is not a table")
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	price := 2.5
	if _, err := w.Write([]row{{1, &price}, {2, nil}, {3, nil}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, "a.parquet", b.String())
	r := newReading(t, `{"paths": "*.parquet"}`, nil)
	messages := r.messages(2)
	r.settle(messages)
	if got, _ := messages[0].Body.Get("price"); got.String() != "2.5" || messages[1].Offset != 1 {
		t.Errorf("got %v at %d", messages[0].Body, messages[1].Offset)
	}
	r.close()
	r = newReading(t, `{"paths": "*.parquet"}`, r.marks)
	messages = r.messages(-1)
	if len(messages) != 2 || messages[0].Body.String() != `{"id":3,"price":null}` {
		t.Fatalf("got %d messages, the first %v", len(messages), messages[0].Body)
	}
	same(t, "what is not a table", r.text(messages[1:]), "error: c.parquet:1: not a Parquet file: it does not begin with PAR1")
	if done, total := r.source.Size(); done < total-30 || done > total {
		t.Errorf("got %d of %d bytes", done, total)
	}
}

// TestPositionsThatAreNone refuses positions of something else, instead of reading again from
// the beginning without a word.
func TestPositionsThatAreNone(t *testing.T) {
	for _, text := range []string{"12", "1 2 3", "-1 1 0 0 x path", "a 1 0 0 x path", "1 1 0 99999 x path"} {
		s := newReading(t, `{"paths": "none*"}`, nil).source
		if err := s.Resume(map[string]string{"1-2": text}); err == nil || !strings.Contains(err.Error(), "1-2") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if err := newReading(t, `{"paths": "none*"}`, map[string]string{"1-2": "0 1 0 1 ab a b"}).source.Resume(map[string]string{"1-2": (mark{position: position{line: 1}, fingerprint: fingerprint{"ab", 1}, path: "a b"}).String()}); err != nil {
		t.Error(err)
	}
}
