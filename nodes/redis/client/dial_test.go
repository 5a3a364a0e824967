package client

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"
)

// TestSilentHandshake begins TLS with a server that waits for something else. The error is
// about that alone.
func TestSilentHandshake(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = shakeHands(ctx, conn, server.Addr().String(), &tls.Config{})
	if err == nil || !strings.Contains(err.Error(), "it may not offer TLS: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}
