//go:build !nethttp

package web

// fastPath is the default of the field fast_path. The tag nethttp of the build turns it off, so
// that each test can run both ways.
const fastPath = true
