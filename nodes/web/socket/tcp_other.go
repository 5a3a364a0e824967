//go:build !linux

package socket

import "net"

// listenConfig returns how sockets are opened.
func listenConfig() *net.ListenConfig { return &net.ListenConfig{} }

// dropNewConns does nothing: connections made just before the socket is closed may
// be reset.
func dropNewConns(*net.TCPListener) bool { return false }

func admitNewConns(*net.TCPListener) {}

// connsQueued does not know.
func connsQueued(*net.TCPListener) bool { return false }
