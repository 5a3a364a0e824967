package trail

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestReadersBesideAWriter has stores open for reading refreshed all the time,
// while a writer appends, flushes, compacts and deletes files under them: they see
// everything that was acknowledged before, once.
func TestReadersBesideAWriter(t *testing.T) {
	opt := quiet()
	opt.FlushRows = 300
	dir := t.TempDir()
	s := open(t, dir, opt)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var acked, begun atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		lot := rand.New(rand.NewPCG(1, 1))
		for i := 0; ctx.Err() == nil; i++ {
			begun.Add(20)
			if err := s.Append(t.Context(), draw(lot, 20, fmt.Sprint(i))); err != nil {
				t.Error(err)
				return
			}
			acked.Add(20)
			if i%20 == 19 {
				if err := s.Compact(t.Context(), nil); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 2 {
		r := open(t, dir, Options{ReadOnly: true})
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					least := acked.Load()
					if err := r.Refresh(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if got, most := count(t, r), begun.Load(); got < least || got > most {
						t.Errorf("got %d events, want %d to %d", got, least, most)
						return
					}
				}
			})
		}
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			r, err := Verify(t.Context(), dir, nil)
			if err != nil || !r.OK() {
				t.Errorf("got %v and %v while the store is in use", err, r.Damages)
				return
			}
		}
	})
	wg.Wait()
}
