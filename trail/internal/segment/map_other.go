//go:build !unix

package segment

import "os"

// mapFile reads a file on systems where the package cannot map files.
func mapFile(path string) (image []byte, unmap func() error, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	return aligned(b), func() error { return nil }, nil
}
