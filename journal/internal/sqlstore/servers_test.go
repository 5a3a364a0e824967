//go:build !unix

package sqlstore_test

func stop() {} // there are no servers
