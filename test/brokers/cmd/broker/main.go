// Command broker runs a broker of tests until its standard input ends. Its first line says
// where the broker listens:
//
//	broker kafka [-dir DIR] [-port PORT] [-partitions N] [-produce DURATION] [TOPIC…]
//	broker nats -dir DIR [-port PORT]
//	broker redis -dir DIR
//	broker amqp -dir DIR
//	broker mqtt -dir DIR
//	broker s3 -dir DIR
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// commands start a broker each. stop ends it.
var commands = map[string]func(args []string) (addr string, stop func(), err error){
	"kafka": kafka,
	"nats":  natsServer,
	"redis": redisServer,
	"amqp":  amqpServer,
	"mqtt":  mqttServer,
	"s3":    s3Server,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		var names []string
		for name := range commands {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintln(os.Stderr, "usage: broker", strings.Join(names, "|"), "[flags]")
		os.Exit(2)
	}
	addr, stop, err := commands[os.Args[1]](os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, addr)
	io.Copy(io.Discard, os.Stdin)
	stop()
}
