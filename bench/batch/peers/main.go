// Command peers is the arms of the batch benchmark that others wrote: a batch
// span processor and an events client. It is a module of its own because of its
// requirements. The program in the folder above builds and runs it, one arm at a
// time.
//
// Both get the events of the benchmark and send to its receiver. The interval and
// the size of a batch are those of the benchmark; all other settings are defaults.
package main

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() {
	program.Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return arm.Child(ctx, args, []arm.Design{spanProcessor(), eventsClient()}, stdout, stderr)
	})
}

// transport is that of the benchmark's own designs: connections are reused.
func transport() *http.Transport { return &http.Transport{MaxIdleConnsPerHost: 128} }

// timeout is that of a request.
const timeout = 30 * time.Second
