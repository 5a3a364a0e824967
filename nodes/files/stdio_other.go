//go:build !unix

package files

import (
	"context"
	"os"
)

func standardOutput() (*os.File, error) { return os.Stdout, nil }

// terminate signals this program to end.
func terminate() error {
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return p.Signal(os.Interrupt)
}

// A standardInput reads the standard input. It cannot be interrupted here: a node stops
// after what it waits for.
type standardInput struct{}

func openStandardInput() (*standardInput, error) { return &standardInput{}, nil }

func (s *standardInput) wait(ctx context.Context) error { return ctx.Err() }

func (s *standardInput) Read(b []byte) (int, error) { return os.Stdin.Read(b) }

func (s *standardInput) close() error { return nil }
