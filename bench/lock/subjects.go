package main

import (
	"context"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/uniflow-labs/uniflow/lock"
)

// A subject is a lock that is measured.
type subject struct {
	name        string
	bytes       int
	threadsOnly bool // knows nothing of goroutines
	measure     func(ctx context.Context, workers int, threads bool, length time.Duration) (measurement, error)
}

// padded keeps other data out of the cache line of a lock.
type padded[T any] struct {
	_ [64]byte
	l T
	_ [64]byte
}

func subjects() []subject {
	all := []subject{
		goSubject("sync.Mutex", int(unsafe.Sizeof(sync.Mutex{})), func() sync.Locker { return &new(padded[sync.Mutex]).l }),
		goSubject("lock.Mutex", int(unsafe.Sizeof(lock.Mutex{})), func() sync.Locker { return &new(padded[lock.Mutex]).l }),
	}
	all = append(all, futexSubjects()...)
	return append(all, goSubject("channel of 1", channelBytes(), func() sync.Locker { return make(channel, 1) }))
}

// A channel is locked while it is full.
type channel chan struct{}

func (c channel) Lock() { c <- struct{}{} }

func (c channel) Unlock() { <-c }

// channelBytes returns the size of a channel: of the pointer, and of what it points
// to, which is measured.
func channelBytes() int {
	const n = 4096
	all := make([]channel, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		all[i] = make(channel, 1)
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(all)
	return int(unsafe.Sizeof(all[0])) + int((after.TotalAlloc-before.TotalAlloc)/n)
}
