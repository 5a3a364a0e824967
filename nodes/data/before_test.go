package data_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// TestCheckpointOf4d86ea6 goes on behind row 10, as the file and the table say that
// test/before/make has left with revision 4d86ea6.
func TestCheckpointOf4d86ea6(t *testing.T) {
	dir := vfstest.Unpack(t, filepath.Join("testdata", "4d86ea6.tar.gz"))
	d := database{driver: "sqlite", source: filepath.Join(dir, "orders.db")}
	must(t, engine(t, d.node("n")), "n", "INSERT INTO orders VALUES (11, 16.5)")
	for name, keep := range map[string]string{"file": fmt.Sprintf("checkpoint: {file: '%s'}", filepath.Join(dir, "orders.pos")), "track": "track: positions"} {
		var k taken
		stop := run(t, &k, fmt.Sprintf("- {kind: sql_source, name: %s, driver: sqlite, source: '%s', table: orders, cursor: id, interval: 10ms, %s, ports: {out: [{name: take}]}}\n- {kind: take, name: take}\n", name, d.source, keep))
		if got := k.wait(t, 1, "body"); got != `{"id":11,"total":16.5}` {
			t.Errorf("%s: got %s", keep, got)
		}
		stop()
	}
}
