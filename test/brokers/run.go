package brokers

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Run calls start, which starts brokers below a folder, outside a test. stop ends them.
func Run(dir string, start func(tb testing.TB)) (stop func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	o := &outside{dir: dir}
	var work sync.WaitGroup
	work.Go(func() { start(o) }) // which Fatal ends
	work.Wait()
	if o.failed != nil {
		o.stop()
	}
	return o.stop, o.failed
}

// An outside is what brokers use of a test, where there is none.
type outside struct {
	testing.TB
	dir    string
	ends   []func()
	failed error
}

func (o *outside) stop() {
	for _, end := range slices.Backward(o.ends) {
		end()
	}
}

func (o *outside) Helper()          {}
func (o *outside) Cleanup(f func()) { o.ends = append(o.ends, f) }

func (o *outside) TempDir() string {
	dir, err := os.MkdirTemp(o.dir, "broker")
	if err != nil {
		o.Fatal(err)
	}
	return dir
}

func (o *outside) Fatal(args ...any) {
	o.failed = errors.New(fmt.Sprint(args...))
	runtime.Goexit()
}

func (o *outside) Fatalf(format string, args ...any) { o.Fatal(fmt.Sprintf(format, args...)) }
