package main

import (
	"flag"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafka starts a fake cluster of one broker.
func kafka(args []string) (addr string, stop func(), err error) {
	flags := flag.NewFlagSet("kafka", flag.ContinueOnError)
	dir := flags.String("dir", "", "where the topics are kept; in memory without it")
	port := flags.Int("port", 0, "the port on 127.0.0.1; any without it")
	partitions := flags.Int("partitions", 16, "of the topics to make")
	slow := flags.Duration("produce", 0, "how long each request that produces takes at least")
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
	if *slow > 0 {
		cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			cluster.SleepControl(func() { <-time.After(*slow) })
			return nil, nil, false
		})
	}
	return cluster.ListenAddrs()[0], cluster.Close, nil
}
