package web_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// TestCheckpointOf4d86ea6 asks for what comes after the third event, as the checkpoint says
// that test/before/make has left with revision 4d86ea6.
func TestCheckpointOf4d86ea6(t *testing.T) {
	dir := vfstest.Unpack(t, filepath.Join("testdata", "4d86ea6.tar.gz"))
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: e4\ndata: %q\n\n", "after "+r.Header.Get("Last-Event-ID"))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	r := read(t, "- {kind: sse_source, name: in, url: '"+url+"', checkpoint: {file: '"+filepath.Join(dir, "events.pos")+"'}, ports: {out: [{name: seen, port: in}]}}\n"+seenNode)
	r.want("after e3 message e4")
}
