//go:build !unix

package exec_test

import (
	"testing"
	"time"
)

var began = time.Now()

// busy returns how long this process has run.
func busy(testing.TB) time.Duration { return time.Since(began) }
