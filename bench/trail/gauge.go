package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

// A memory is the largest amount that a process used.
type memory struct {
	Heap int64 `json:"heap_bytes"` // of Go objects, with garbage
	Anon int64 `json:"anon_bytes"` // resident and not of a file; 0 where this is not known
}

// every is how often memory is looked at.
const every = time.Millisecond

// watched runs f and returns the largest memory of this process during it. The heap
// is collected before.
func watched(f func() error) (memory, error) {
	settle()
	var peak memory
	look := func() {
		peak.Heap = max(peak.Heap, heap())
		peak.Anon = max(peak.Anon, anon())
	}
	look()
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				look()
			case <-done:
				look()
				return
			}
		}
	})
	err := f()
	close(done)
	watcher.Wait()
	return peak, err
}

// settle collects garbage and gives memory that is free back to the system.
func settle() {
	runtime.GC()         // what has a finalizer, or is in a pool, goes the second time
	debug.FreeOSMemory() // which is here
}

// heap returns the bytes of the objects on the heap.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// anon returns the resident memory of this process that is not of a file.
func anon() int64 {
	self, err := procfs.NewProc(os.Getpid())
	if err != nil {
		return 0
	}
	status, err := self.NewStatus()
	if err != nil {
		return 0
	}
	return int64(status.RssAnon)
}
