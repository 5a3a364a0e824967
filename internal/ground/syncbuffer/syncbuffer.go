// Package syncbuffer keeps text that several goroutines write, such as the log of a test.
// The package must not know what writes it.
package syncbuffer

import (
	"bytes"
	"sync"
)

// A Buffer keeps what is written to it. The zero Buffer is empty. Any goroutine may call
// its methods.
type Buffer struct {
	mu struct {
		sync.Mutex
		text bytes.Buffer
	}
}

// Write implements [io.Writer]. It does not fail.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.text.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.text.String()
}

// Tail returns the last n bytes, or all if there are fewer.
func (b *Buffer) Tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.mu.text.Bytes()
	return string(text[max(0, len(text)-n):])
}
