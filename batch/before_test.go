package batch_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// posted is an event as it was stored: a request with the number.
const posted = `{"method":"POST","scheme":"http","host":"127.0.0.1:9783","path":"/","query":{},"protocol":"HTTP/1.1",` +
	`"header":{"Accept-Encoding":["identity"],"Connection":["close"],"Content-Length":["10"],"Content-Type":["application/json"],"User-Agent":["Python-urllib/3.11"]},` +
	`"remote":"127.0.0.1","body":{"n":%d}}`

// TestSpoolOf4d86ea6 delivers what waits in the spool that test/before/make has left with
// revision 4d86ea6, once and in order, and what is added then.
func TestSpoolOf4d86ea6(t *testing.T) {
	dir := filepath.Join(vfstest.Unpack(t, filepath.Join("testdata", "4d86ea6.tar.gz")), "spool")
	var r receiver
	p := start(t, batch.Options[int]{
		Send: r.send, Trigger: batch.Trigger{Count: 50, Linger: time.Millisecond}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}, Retry: quick,
		Spool: &batch.Spool{Dir: dir},
	})
	add(t, p, 7, 8)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got := finish(t, p); got.Spooled != 0 || got.Undelivered != 0 {
		t.Errorf("got %+v", got)
	}
	var got, want []string
	for _, events := range r.calls() {
		got = append(got, events...)
	}
	for n := 100; n < 300; n++ {
		want = append(want, fmt.Sprintf(posted, n))
	}
	want = append(want, "7")
	if !slices.Equal(got, want) {
		t.Errorf("got %d events %.300q, want %d", len(got), got, len(want))
	}
}
