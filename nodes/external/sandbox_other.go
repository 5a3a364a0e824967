//go:build !linux || !(amd64 || arm64)

package external

import "errors"

var errNoSandbox = errors.New("programs can be limited only on Linux, on amd64 and arm64; leave sandbox out, and run the program as a user with few rights")

func (s *sandbox) possible() error { return errNoSandbox }

// Confine is for Linux.
func Confine(string) error { return errNoSandbox }
