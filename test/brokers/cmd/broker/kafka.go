package main

import (
	"flag"

	"github.com/twmb/franz-go/pkg/kfake"
)

// kafka starts a fake cluster of one broker.
func kafka(args []string) (addr string, stop func(), err error) {
	flags := flag.NewFlagSet("kafka", flag.ContinueOnError)
	dir := flags.String("dir", "", "where the topics are kept; in memory without it")
	port := flags.Int("port", 0, "the port on 127.0.0.1; any without it")
	partitions := flags.Int("partitions", 16, "of the topics to make")
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(*port)}
	if *dir != "" {
		opts = append(opts, kfake.DataDir(*dir))
	}
	if flags.NArg() > 0 {
		opts = append(opts, kfake.SeedTopics(int32(*partitions), flags.Args()...))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return "", nil, err
	}
	return cluster.ListenAddrs()[0], cluster.Close, nil
}
