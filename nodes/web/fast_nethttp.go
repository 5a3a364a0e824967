//go:build nethttp

package web

const fastPath = false
