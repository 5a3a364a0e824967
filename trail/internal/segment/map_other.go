//go:build !unix

package segment

import (
	"os"
	"unsafe"
)

// mapFile reads a file where the system has no maps that the package knows of.
func mapFile(path string) (image []byte, unmap func() error, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if len(b) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
		words := make([]uint64, (len(b)+7)/8)
		b = append(bytesOf(words)[:0], b...)
	}
	return b, func() error { return nil }, nil
}
