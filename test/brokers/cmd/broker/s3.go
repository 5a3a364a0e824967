package main

import (
	"flag"
	"testing"

	"github.com/uniflow-labs/uniflow/test/brokers"
)

// s3Server builds and starts a versitygw, with a bucket. The folder of test/brokers is where it runs.
func s3Server(args []string) (addr string, stop func(), err error) {
	flags := flag.NewFlagSet("s3", flag.ContinueOnError)
	dir := flags.String("dir", "", "where it keeps what it has")
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	end, err := brokers.Run(*dir, func(tb testing.TB) { addr = brokers.StartS3(tb, brokers.S3Options{}).Addr })
	return addr, func() {
		end()
		brokers.Clean()
	}, err
}
