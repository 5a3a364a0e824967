package javascript

import (
	"fmt"
	"os"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

// workerName is what the test binary is called when it is to be a worker.
const workerName = "script-worker"

func TestMain(m *testing.M) {
	if os.Args[0] == workerName {
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.Main(m)
}
