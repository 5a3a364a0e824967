package syncbuffer

import (
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestBuffer(t *testing.T) {
	var b Buffer
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 100 {
				if _, err := b.Write([]byte("line\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if got := b.String(); got != strings.Repeat("line\n", 400) {
		t.Errorf("got %d bytes", len(got))
	}
	if b.Tail(7) != "e\nline\n" || b.Tail(1<<20) != b.String() {
		t.Errorf("got the tails %q and %d bytes", b.Tail(7), len(b.Tail(1<<20)))
	}
}
