//go:build !linux

package main

// pinned calls start. Only on Linux is what it starts confined to processors.
func pinned(_ []int, start func() error) error { return start() }

// processors returns none: nothing can be confined to them.
func processors() ([]int, error) { return nil, nil }
