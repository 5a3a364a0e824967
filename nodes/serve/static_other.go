//go:build !unix

package serve

// nonBlocking is for systems whose folders may have pipes.
const nonBlocking = 0
