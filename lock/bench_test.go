package lock_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/lock"
)

// The benchmarks compare Mutex with sync.Mutex for a section of one addition.
// bench/lock measures more.

func BenchmarkUncontended(b *testing.B) {
	b.Run("lock", func(b *testing.B) {
		var m lock.Mutex
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			m.Lock()
			n++
			m.Unlock()
		}
	})
	b.Run("sync", func(b *testing.B) {
		var m sync.Mutex
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			m.Lock()
			n++
			m.Unlock()
		}
	})
}

// BenchmarkContended measures the time per acquisition by any goroutine.
func BenchmarkContended(b *testing.B) {
	for _, workers := range []int{4, 30} {
		b.Run(fmt.Sprint(workers, "/lock"), func(b *testing.B) {
			var m lock.Mutex
			n := 0
			together(b, workers, func(loops int) {
				for range loops {
					m.Lock()
					n++
					m.Unlock()
				}
			})
		})
		b.Run(fmt.Sprint(workers, "/sync"), func(b *testing.B) {
			var m sync.Mutex
			n := 0
			together(b, workers, func(loops int) {
				for range loops {
					m.Lock()
					n++
					m.Unlock()
				}
			})
		})
	}
}

// together divides b.N among goroutines that start together.
func together(b *testing.B, workers int, work func(loops int)) {
	b.ReportAllocs()
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range workers {
		loops := b.N / workers
		if i < b.N%workers {
			loops++
		}
		wg.Go(func() {
			<-start
			work(loops)
		})
	}
	b.ResetTimer()
	close(start)
	wg.Wait()
}
