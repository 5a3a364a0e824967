package freeport_test

import (
	"net"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// TestPort gives ports that differ, and can be listened on.
func TestPort(t *testing.T) {
	seen := make(map[string]bool)
	for range 200 {
		addr := freeport.Addr(t)
		if seen[addr] {
			t.Errorf("got %s twice", addr)
		}
		seen[addr] = true
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}
