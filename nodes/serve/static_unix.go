//go:build unix

package serve

import "syscall"

// nonBlocking keeps a pipe in the folder from blocking who opens it.
const nonBlocking = syscall.O_NONBLOCK
