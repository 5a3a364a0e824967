// Package freeport gives tests ports for servers that must know theirs before they listen.
// The package must not know what the servers are.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// first and last bound the ports that Find tries. The system gives higher ones to connections
// and listeners that do not ask for a port (Linux from 32768, others from 49152), so another
// process may take those at any time, such as the port of a server that a test restarts.
const first, last = 10_000, 32_768

var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: make(map[int]bool)}

// Find returns a port of the loopback device that nothing listens on, and that it has not
// returned before in this process. The system does not give it to anything that does not ask
// for it, so it stays free until the caller uses it, and while its server restarts. Any
// goroutine may call it. It fails if there are no such ports.
func Find() (int, error) {
	given.Lock()
	defer given.Unlock()
	for range 1000 {
		port := first + rand.IntN(last-first)
		if given.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		given.ports[port] = true
		return port, nil
	}
	return 0, errors.New("all ports that were tried are in use")
}

// Port returns what [Find] returns, and fails the test if there is none.
func Port(tb testing.TB) int {
	tb.Helper()
	port, err := Find()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// Addr returns "127.0.0.1:" and a [Port].
func Addr(tb testing.TB) string {
	tb.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(tb)))
}
