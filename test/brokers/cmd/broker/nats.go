package main

import (
	"flag"

	"github.com/uniflow-labs/uniflow/test/brokers"
)

// natsServer starts a server of NATS with JetStream.
func natsServer(args []string) (addr string, stop func(), err error) {
	flags := flag.NewFlagSet("nats", flag.ContinueOnError)
	dir := flags.String("dir", "", "where the streams are kept")
	port := flags.Int("port", 0, "the port on 127.0.0.1; any without it")
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	n, err := brokers.RunNATS(brokers.NATSOptions{Dir: *dir, Port: *port})
	if err != nil {
		return "", nil, err
	}
	return n.Addr(), n.Stop, nil
}
