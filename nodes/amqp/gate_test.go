package amqp

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
)

// The gate lets no more through while too many bytes wait, until the reader has taken them or
// waits for more.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		g := newGate(ours, 10)
		sent := 0
		go func() {
			for sent < 40 {
				if _, err := theirs.Write(make([]byte, 4)); err != nil {
					return
				}
				sent += 4
			}
		}()
		done := make(chan error)
		go func() {
			_, err := io.Copy(io.Discard, g)
			done <- err
		}()
		for _, step := range []struct {
			what string
			do   func()
			want int
		}{
			{"no more than the limit", func() {}, 12},
			{"a body was taken", func() { g.took(4) }, 16},
			{"the reader waits", g.want, 40},
		} {
			step.do()
			synctest.Wait()
			if sent != step.want {
				t.Errorf("%s: %d bytes have come, want %d", step.what, sent, step.want)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		theirs.Close()
		<-done
	})
}
