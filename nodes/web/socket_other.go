//go:build !linux

package web

import "net"

// listenConfig returns how sockets are opened.
func listenConfig() *net.ListenConfig { return new(net.ListenConfig) }
