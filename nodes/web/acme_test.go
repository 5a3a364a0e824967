package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestACMEOpen reports what is wrong with files when a listener opens, and keeps nothing. That
// certificates come is tested with an authority, in test/web.
func TestACMEOpen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(config, want string) {
		t.Helper()
		w := newWorld(t)
		n := w.make("web", fmt.Sprintf(`{%s,"tls":{"acme":{"domains":["localhost"],"directory":"https://127.0.0.1:1/dir",%s}}}`, loopback, config))
		if err := n.Open(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
	}
	f(fmt.Sprintf(`"storage":%q`, file), "tls.acme.storage: ")
	f(fmt.Sprintf(`"storage":%q,"ca":%q`, dir, file), "tls.acme.ca: no certificate in it")
	f(fmt.Sprintf(`"storage":%q,"ca":"/nowhere.pem"`, dir), "tls.acme.ca: open /nowhere.pem")
}
