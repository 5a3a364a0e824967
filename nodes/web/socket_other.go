//go:build !linux

package web

import "net"

// listenConfig returns how sockets are opened.
func listenConfig() *net.ListenConfig { return &net.ListenConfig{} }

// turnAwayNew does nothing: connections that are made at the last moment may be
// reset.
func turnAwayNew(*net.TCPListener) bool { return false }

// letInNew has nothing to undo.
func letInNew(*net.TCPListener) {}

// queued cannot be told.
func queued(*net.TCPListener) bool { return false }
