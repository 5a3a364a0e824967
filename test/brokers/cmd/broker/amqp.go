package main

import (
	"flag"
	"testing"

	"github.com/uniflow-labs/uniflow/test/brokers"
)

// amqpServer starts a RabbitMQ. Its address has the virtual host.
func amqpServer(args []string) (addr string, stop func(), err error) {
	flags := flag.NewFlagSet("amqp", flag.ContinueOnError)
	dir := flags.String("dir", "", "where it keeps what it has")
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	stop, err = brokers.Run(*dir, func(tb testing.TB) {
		server := brokers.StartAMQP(tb)
		addr = server.Addr() + "/" + server.Vhost(tb)
	})
	return addr, stop, err
}

// mqttServer starts a mosquitto.
func mqttServer(args []string) (addr string, stop func(), err error) {
	flags := flag.NewFlagSet("mqtt", flag.ContinueOnError)
	dir := flags.String("dir", "", "where it keeps what it has")
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	stop, err = brokers.Run(*dir, func(tb testing.TB) { addr = brokers.StartMQTT(tb, "max_inflight_messages 4096").Addr() })
	return addr, stop, err
}
