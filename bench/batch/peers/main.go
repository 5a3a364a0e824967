// Command peers is the arms of the batch benchmark that others wrote: a batch
// span processor and an events client. It is a module of its own so that nobody
// else depends on what it needs; the harness in the folder above builds and runs
// it, an arm at a time.
//
// Both get the events of the benchmark, and both send to its model server what
// they make of them. Where they take a number the benchmark has one for, they are
// given that; everything else is as they come.
package main

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := arm.Child(ctx, os.Args[1:], []arm.Design{spanProcessor(), eventsClient()}, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// transport is that of the benchmark's own designs: connections are reused.
func transport() *http.Transport { return &http.Transport{MaxIdleConnsPerHost: 128} }

// timeout is that of a request.
const timeout = 30 * time.Second
