package main

import (
	"flag"

	"github.com/uniflow-labs/uniflow/internal/servertest"
)

// redisServer starts a redis-server that keeps all in memory.
func redisServer(args []string) (addr string, stop func(), err error) {
	flags := flag.NewFlagSet("redis", flag.ContinueOnError)
	dir := flags.String("dir", "", "where it runs")
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	server, err := servertest.RunRedis(servertest.RedisOptions{Dir: *dir, Args: []string{"--appendonly", "no"}})
	if err != nil {
		return "", nil, err
	}
	return server.Addr(), server.Kill, nil
}
