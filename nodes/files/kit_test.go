package files_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/files"
	"github.com/uniflow-labs/uniflow/value"
)

// without adds the rows of connectors with connections.
func without(more map[streamtest.Row]string) map[streamtest.Row]string {
	for _, row := range []streamtest.Row{streamtest.Resets, streamtest.BlackHole, streamtest.Slow, streamtest.Restarts, streamtest.Late, streamtest.Outage} {
		more[row] = "Files have no connection."
	}
	return more
}

var options = stream.Options{Languages: builtin.Languages(), Language: "cel"}

// TestSourceKit follows a folder of files, one for each key, with positions in a file.
func TestSourceKit(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds: files.Defs(options), Source: true,
		Without: without(map[streamtest.Row]string{}),
		System: func(t testing.TB) *streamtest.System {
			dir := t.TempDir()
			return &streamtest.System{
				Source: func(string) map[string]any {
					return map[string]any{
						"kind": "file_source", "paths": []string{filepath.Join(dir, "*.ndjson")}, "follow": true, "rescan": "50ms", "max_record": "64MiB",
						"checkpoint": map[string]any{"file": filepath.Join(dir, "positions"), "interval": "50ms"},
					}
				},
				Produce: func(t testing.TB, messages []streamtest.Message) {
					texts := map[string][]byte{}
					for _, m := range messages {
						body := m.Body
						if len(body) == 0 {
							body = []byte(`""`) // an empty line is not a message
						}
						texts[m.Key] = append(append(texts[m.Key], body...), '\n')
					}
					for key, text := range texts {
						add(t, filepath.Join(dir, key+".ndjson"), text)
					}
				},
				Refuse: func(fields map[string]any) (field, secret string) {
					fields["paths"] = []string{dir}
					return "paths", "a wrong horse"
				},
			}
		},
	})
}

func add(t testing.TB, path string, text []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSinkKit appends to one file.
func TestSinkKit(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds: files.Defs(options), Sink: true,
		Without: without(map[streamtest.Row]string{}),
		System: func(t testing.TB) *streamtest.System {
			dir := t.TempDir()
			path := filepath.Join(dir, "out.ndjson")
			return &streamtest.System{
				Sink: func(string) map[string]any { return map[string]any{"kind": "file_sink", "path": path} },
				Consume: func(t testing.TB) [][]byte {
					text, err := os.ReadFile(path)
					if err != nil && !os.IsNotExist(err) {
						t.Fatal(err)
					}
					lines := bytes.Split(text, []byte{'\n'})
					return lines[:len(lines)-1] // the last one is empty, or torn
				},
				Reject: func() value.Value { // infinite numbers are not JSON
					zero := 0.0
					return value.Map(value.Field{Name: "body", Value: value.Float(1 / zero)})
				},
				Refuse: func(fields map[string]any) (field, secret string) {
					fields["path"] = dir
					return "path", "a wrong horse"
				},
			}
		},
	})
}
