package files_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// run serves a workflow until its sources have ended, and returns how far they are.
func run(t *testing.T, document string) node.Progress {
	t.Helper()
	var finite []node.Finite
	kinds := std.Defs("")
	for _, d := range kinds {
		if d.Kind == "file_source" {
			of := d.New
			d.New = func(init *node.Init) (node.Node, error) {
				n, err := of(init)
				if err == nil {
					finite = append(finite, n.(node.Finite))
				}
				return n, err
			}
		}
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	list, err := engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "job.yaml", Data: []byte(document)}}})
	if err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	select {
	case <-finite[len(finite)-1].Finished():
	case <-time.After(30 * time.Second):
		t.Fatal("the job does not end")
	}
	return finite[len(finite)-1].Progress()
}

const job = `
- {kind: file_source, name: rows, paths: [orders.csv], batch: {count: 100, linger: 1ms}, retry: {threshold: 2, backoff: {initial: 1ms}}, checkpoint: {file: orders.pos}, ports: {out: [{name: map}], error: [{name: letter}]}}
- {kind: snippet, name: map, language: cel, code: 'self.map(m, {"id": int(m.body.id), "total": double(m.body.price) * double(m.body.n)})', ports: {out: [{name: load}]}}
- {kind: file_sink, name: load, path: totals.ndjson}
- {kind: snippet, name: letter, language: cel, code: '{"line": self.data.line, "message": self.message}', ports: {out: [{name: bad}]}}
- {kind: file_sink, name: bad, path: bad.ndjson}
`

// TestJob loads rows of CSV: bad ones go to a file of their own, and a second run reads
// what was added.
func TestJob(t *testing.T) {
	t.Chdir(t.TempDir())
	var rows strings.Builder
	rows.WriteString("id,price,n\n")
	for i := range 1000 {
		switch i {
		case 10:
			rows.WriteString("10,short\n")
		case 500:
			rows.WriteString("500,many,1\n")
		default:
			fmt.Fprintf(&rows, "%d,%d.5,2\n", i, i)
		}
	}
	write := func(path, text string) {
		t.Helper()
		add(t, path, []byte(text))
	}
	write("orders.csv", rows.String())
	progress := run(t, job)
	if progress.Messages != 1000 || progress.DeadLetters != 2 || progress.Err != nil || progress.Done != progress.Total {
		t.Errorf("got %+v", progress)
	}
	totals := lines(t, "totals.ndjson")
	slices.Sort(totals)
	if len(totals) != 998 || !slices.Contains(totals, `{"id":999,"total":1999}`) {
		t.Errorf("got %d totals", len(totals))
	}
	bad := lines(t, "bad.ndjson")
	if len(bad) != 2 || !strings.Contains(strings.Join(bad, ""), `{"line":12,"message":"undecodable: orders.csv:12: the row has 2 fields, and there are 3 columns"}`) || !strings.Contains(strings.Join(bad, ""), `{"line":502,`) {
		t.Errorf("got %s", bad)
	}
	write("orders.csv", "1000,1,1\n")
	if progress := run(t, job); progress.Messages != 1 {
		t.Errorf("the second run: got %+v", progress)
	}
	if got := lines(t, "totals.ndjson"); len(got) != 999 || got[998] != `{"id":1000,"total":1}` {
		t.Errorf("the second run: got %d totals, the last one %s", len(got), got[len(got)-1])
	}
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// TestCopies writes each message to a file that its body names.
func TestCopies(t *testing.T) {
	t.Chdir(t.TempDir())
	add(t, "in.ndjson", []byte("{\"to\":\"a\",\"n\":1}\n{\"to\":\"b/c\",\"n\":2}\n{\"to\":\"a\",\"n\":3}\n{\"to\":\"../x\"}\n{\"to\":\"/etc/x\"}\n"))
	progress := run(t, `
- {kind: file_source, name: in, paths: [in.ndjson], order: total, retry: {threshold: 1}, ports: {out: [{name: out}], error: [{name: none}]}}
- {kind: file_sink, name: out, path: 'out/${self.body.to}.ndjson'}
- {kind: nop, name: none}
`)
	if progress.Messages != 5 || progress.DeadLetters != 1 { // out//etc/x is in the folder
		t.Errorf("got %+v", progress)
	}
	if got := strings.Join(append(lines(t, "out/a.ndjson"), lines(t, "out/b/c.ndjson")...), " "); got != `{"to":"a","n":1} {"to":"a","n":3} {"to":"b/c","n":2}` {
		t.Errorf("got %s", got)
	}
}

// TestRotatedJob runs a job on a log that is compressed, or copied and truncated, between two
// runs: each run reads what is new, and the file of positions follows.
func TestRotatedJob(t *testing.T) {
	const job = "- {kind: file_source, name: log, paths: ['app.log*'], checkpoint: {file: pos}, ports: {out: [{name: none}]}}\n- {kind: nop, name: none}\n"
	f := func(name string, rotate func(path, to string) error) {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for i := range 5 {
				for n := 5; n > 0; n-- {
					from, to := fmt.Sprintf("app.log.%d.gz", n), fmt.Sprintf("app.log.%d.gz", n+1)
					if err := os.Rename(from, to); err != nil && !os.IsNotExist(err) {
						t.Fatal(err)
					}
				}
				if i > 0 {
					if err := rotate("app.log", "app.log.1.gz"); err != nil {
						t.Fatal(err)
					}
				}
				if got := run(t, job).Messages; got != 0 {
					t.Errorf("rotation %d: %d messages are read again", i, got)
				}
				add(t, "app.log", fmt.Appendf(nil, "%d\na\n%s\n", i, strings.Repeat("x", 5000)))
				if got := run(t, job).Messages; got != 3 {
					t.Errorf("rotation %d: got %d messages, want 3", i, got)
				}
			}
		})
	}
	pack := func(path, to string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err = w.Write(text)
		return errors.Join(err, w.Close(), os.WriteFile(to, b.Bytes(), 0o666))
	}
	f("compress", func(path, to string) error { return errors.Join(pack(path, to), os.Remove(path)) })
	f("copytruncate", func(path, to string) error { return errors.Join(pack(path, to), os.Truncate(path, 0)) })
}
