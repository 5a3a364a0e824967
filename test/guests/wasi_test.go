package guests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/wasm"
	"github.com/uniflow-labs/uniflow/test/guests"
)

// TestGuestsSee is what a module in Go may see of the system, by the field wasi.
func TestGuestsSee(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join("testdata", "look.go"))
	if err != nil {
		t.Fatal(err)
	}
	dir := guests.Go(t, root, source)
	t.Chdir(dir)
	for name, text := range map[string]string{"data/a.txt": "hello", "secret.txt": "hidden", "more/b.txt": "more"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret.txt", "data/link"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKEN", "hunter2")
	f := flowtest.New(t, wasm.Defs(stream.Options{})...)
	f.Load(`
- {kind: wasm, name: closed, module: price.wasm, timeout: 2s}
- {kind: wasm, name: open, module: price.wasm, wasi: {env: {TZ: UTC}, read: [data]}}`)
	for _, c := range []struct{ node, in, want string }{
		{"closed", `{"do":"environ"}`, `"[] 0"`},
		{"closed", `{"do":"read","name":"/data/a.txt"}`, "error: open /data/a.txt: "},
		{"closed", `{"do":"read","name":"price.wasm"}`, "error: open price.wasm: "},
		{"closed", `{"do":"sleep","name":"10ms"}`, `"true"`},
		{"closed", `{"do":"sleep","name":"1h"}`, "error: uniflow_call: the module took longer than 2s"},
		{"closed", `{"do":"exit"}`, "error: uniflow_call: the module ended itself with the status 7"},
		{"closed", `{"do":"print","name":"x"}`, `""`},
		{"closed", `{"do":"other"}`, "error: unknown"},
		{"open", `{"do":"env","name":"TZ"}`, `"UTC"`},
		{"open", `{"do":"env","name":"TOKEN"}`, `""`},
		{"open", `{"do":"read","name":"/data/a.txt"}`, `"hello"`},
		{"open", `{"do":"read","name":"/data/link"}`, "error: open /data/link: "},
		{"open", `{"do":"read","name":"/data/../secret.txt"}`, "error: open /data/../secret.txt: "},
		{"open", `{"do":"read","name":"/more/b.txt"}`, "error: open /more/b.txt: "},
		{"open", `{"do":"write","name":"/data/new"}`, "error: open /data/new: "},
	} {
		if got := f.SendJSON(c.node, c.in); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.node, c.in, got, c.want)
		}
	}
	if log := f.Log(); !strings.Contains(log, "to the output: x") {
		t.Errorf("got %s, want what the module has printed", log)
	}
}
