package loader

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
)

// TestFromBatch has the package batch send to a loader, compressed in each way:
// what it sends is taken in the first request, also events of which one is larger
// than a decoder's first buffer.
func TestFromBatch(t *testing.T) {
	for _, c := range []struct {
		size, events, count int
	}{{50, 20_000, 10_000}, {270_000, 20, 10}, {1, 1, 1}} {
		for _, compression := range []batch.Compression{batch.CompressionNone, batch.CompressionGzip, batch.CompressionZstd} {
			t.Run(fmt.Sprint(c.events, " of ", c.size, " ", compression), func(t *testing.T) {
				r := openRig(t, Options{NoFiles: true})
				send, err := batch.NewHTTP(r.server.URL+"/batch", batch.HTTPOptions{Compression: compression, Client: r.server.Client()})
				if err != nil {
					t.Fatal(err)
				}
				p, err := batch.New(batch.Options[[]byte]{
					Encode:  func(dst []byte, v *[]byte) ([]byte, error) { return append(dst, *v...), nil },
					Send:    send,
					Trigger: batch.Trigger{Count: c.count, Bytes: 4 << 20, Linger: time.Hour},
					Log:     slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				for i := range c.events {
					event := fmt.Appendf(nil, `{"n":%d,"pad":"%s"}`, i, bytes.Repeat([]byte{'a' + byte(i%26)}, c.size))
					if err := p.AddWait(t.Context(), &event); err != nil {
						t.Fatal(err)
					}
				}
				report, err := p.Close(t.Context())
				if err != nil || int(report.Delivered) != c.events {
					t.Errorf("close: %v, %+v", err, report)
				}
				if s := p.Stats(); s.Requests != s.Batches {
					t.Errorf("got %d requests for %d batches", s.Requests, s.Batches)
				}
			})
		}
	}
}
