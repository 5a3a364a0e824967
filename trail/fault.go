package trail

import (
	"fmt"
	"runtime/debug"
)

// guarded runs f, which reads mapped files. A page that cannot be read, because the
// disk fails or another has cut the file short, is an error then and does not end
// the process. The goroutines of exec have their own guard.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if _, ok := r.(interface{ Addr() uintptr }); !ok {
			panic(r) // a bug, and no fault of a page
		}
		err = fmt.Errorf("read a mapped file: %v", r)
	}()
	return f()
}
