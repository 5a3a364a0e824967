package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
)

func TestTaker(t *testing.T) {
	f := func(stack string, wantBy, wantFrom string, want bool) {
		t.Helper()
		by, from, ok := taker(strings.Fields(stack))
		if by != wantBy || from != wantFrom || ok != want {
			t.Errorf("%s: got %q, %q, %v, want %q, %q, %v", stack, by, from, ok, wantBy, wantFrom, want)
		}
	}
	const ours = "github.com/uniflow-labs/uniflow/"
	f("sync.(*Mutex).Unlock "+ours+"internal/run.(*process).post main.main", ours+"internal/run.(*process).post", "internal/run.(*process).post", true)
	f("sync.(*Mutex).Lock net/http.(*conn).serve "+ours+"nodes/web.serve", "net/http.(*conn).serve", "nodes/web.serve", true)
	f("sync.(*RWMutex).RLock "+ours+"lock.(*Mutex).Lock "+ours+"x.f", ours+"x.f", "x.f", true)
	f("sync.(*Mutex).Lock main.main", "main.main", "", true)
	f("runtime.chanrecv1 "+ours+"internal/cli.(*server).run", "", "", false)
	f("", "", "", false)
}

// TestWaits reads real profiles of a lock that is fought for, in this package.
func TestWaits(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	var mu sync.Mutex
	var wg sync.WaitGroup
	mu.Lock()
	held := make(chan struct{})
	wg.Go(func() {
		close(held)
		mu.Lock()
		defer mu.Unlock()
	})
	<-held
	for range 1000 { // until the other one waits, which nothing tells
		runtime.Gosched()
	}
	mu.Unlock()
	wg.Wait()
	dir := t.TempDir()
	for _, name := range []string{"mutex", "block"} {
		var b bytes.Buffer
		if err := pprof.Lookup(name).WriteTo(&b, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	waits, err := readWaits(filepath.Join(dir, "mutex"), filepath.Join(dir, "block"))
	if err != nil || len(waits) == 0 {
		t.Fatalf("got %v, %v, want a wait", waits, err)
	}
	for _, w := range waits {
		if w.ours && strings.HasPrefix(w.from, "bench.TestWaits") && w.count == 1 && w.delay > 0 {
			return
		}
	}
	t.Errorf("got %+v, want a wait in this test", waits)
}
