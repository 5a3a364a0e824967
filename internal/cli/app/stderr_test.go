package app

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A blocking writer takes nothing until it is opened.
type blocking struct {
	open chan struct{}
	mu   sync.Mutex
	buf  bytes.Buffer
}

func (b *blocking) Write(p []byte) (int, error) {
	<-b.open
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// TestUnreadLog does not block writers while nothing reads, keeps what fits in order, and
// then writes how much was dropped.
func TestUnreadLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &blocking{open: make(chan struct{})}
		s := &stderr{w: w}
		s.begin(func(dropped uint64) []byte { return fmt.Appendf(nil, "dropped %d\n", dropped) })
		line := func(i int) string { return fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 1000)) }
		const n = 5000
		for i := range n {
			if _, err := io.WriteString(s, line(i)); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				synctest.Wait() // until it is stuck with that
			}
		}
		start := time.Now()
		s.flush(time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("flush took %s, want the second that it was given", took)
		}
		close(w.open)
		<-s.ended
		kept := 0
		rest := w.buf.String()
		for ; strings.HasPrefix(rest, line(kept)); kept++ {
			rest = rest[len(line(kept)):]
		}
		if want := fmt.Sprintf("dropped %d\n", n-kept); rest != want {
			t.Errorf("got %q after %d lines, want %q", rest, kept, want)
		}
		if size := kept * 1004; size < maxQueued-2000 || size > maxQueued+4000 {
			t.Errorf("got %d bytes kept, want about %d", size, maxQueued)
		}
	})
}

// TestReadLog loses nothing while something reads: neither a record that is larger
// than the queue, nor records that come faster than they are written.
func TestReadLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got bytes.Buffer
		s := &stderr{w: writerFunc(func(p []byte) (int, error) {
			<-time.After(patientWrite / 2) // a slow disk
			return got.Write(p)
		})}
		s.begin(func(dropped uint64) []byte { return fmt.Appendf(nil, "dropped %d\n", dropped) })
		var want strings.Builder
		for i := range 20_000 {
			record := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 1000))
			if i%5000 == 1 {
				record = strings.Repeat("y", 2*maxQueued) + "\n"
			}
			want.WriteString(record)
			if _, err := io.WriteString(s, record); err != nil {
				t.Fatal(err)
			}
		}
		s.flush(time.Minute)
		if got.String() != want.String() {
			t.Errorf("got %d bytes, want %d, without a gap", got.Len(), want.Len())
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
