package web

import (
	"fmt"
	"testing"

	"golang.org/x/net/http2"

	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// TestLastDataEndsStream reads the frames of answers of many sizes: the last one with data
// ends the stream, as a proxy may hold back what does not.
func TestLastDataEndsStream(t *testing.T) {
	s := hostile(t, ``, sized, nil)
	c := s.dialFrames(1 << 20)
	if err := c.WriteWindowUpdate(0, 1<<30); err != nil {
		t.Fatal(err)
	}
	for i, size := range []int{1, 100, pace.TailBytes - 1, pace.TailBytes, pace.TailBytes + 1, 4095, 4096, 4097, 4096 + pace.TailBytes, 16 << 10, pace.PieceBytes, pace.PieceBytes + 1, pace.PieceBytes + pace.TailBytes, 300_000} {
		stream := uint32(2*i + 1)
		if err := c.get(stream, fmt.Sprintf("/%d", size)); err != nil {
			t.Fatal(err)
		}
		for got, ended := 0, false; !ended; {
			f, err := c.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					if err := c.WriteSettingsAck(); err != nil {
						t.Fatal(err)
					}
				}
			case *http2.HeadersFrame:
				if ended = f.StreamEnded(); ended {
					t.Errorf("%d bytes: the header ends the stream", size)
				}
			case *http2.DataFrame:
				got += len(f.Data())
				if ended = f.StreamEnded(); len(f.Data()) == 0 {
					t.Errorf("%d bytes: a frame without data", size)
				}
				if ended != (got == size) {
					t.Errorf("%d bytes: after %d, ended is %t", size, got, ended)
				}
			case *http2.RSTStreamFrame, *http2.GoAwayFrame:
				t.Fatalf("%d bytes: got %v", size, f)
			}
		}
	}
}
