package lock_test

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/uniflow-labs/uniflow/lock"
)

// An account is one of millions.
type account struct {
	mu      lock.Mutex
	balance uint32 // guarded by mu
}

func Example() {
	accounts := make([]account, 1000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range accounts {
				accounts[i].mu.Lock()
				accounts[i].balance += 25
				accounts[i].mu.Unlock()
			}
		})
	}
	wg.Wait()
	fmt.Println(unsafe.Sizeof(accounts[0]), "bytes each, the last has", accounts[999].balance)
	// Output: 8 bytes each, the last has 100
}

func ExampleMutex_TryLock() {
	var m lock.Mutex
	m.Lock()
	fmt.Println(m.TryLock())
	m.Unlock()
	fmt.Println(m.TryLock())
	m.Unlock()
	// Output:
	// false
	// true
}
