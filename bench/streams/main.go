// Command streams measures streams and batch jobs, each next to the same work written by hand
// in Go with the same client library.
//
//	go run ./bench/streams [-only S1,S3] [-rounds 5] [-scale 0.1] [-shape order,log] [-out DIR]
//
// Both sides do the same work with the same guarantee, in processes of their own, in turns;
// brokers are processes of their own, too. The baseline is written in several forms, which
// all take part; the fastest is scored. It prints a table, and writes DIR/streams.json.
//
// Reading order: main.go, lab.go (processes and rounds), messages.go (the data and the map
// that is measured), and then by line: broker.go with nats.go (S1) and kafka.go (S2), file.go
// (S3), echo.go (S4), parts.go (S5), job.go (S6), process.go (S7),
// llm.go (S8), redis.go (REDIS), amqp.go (AMQP), mqtt.go (MQTT), cdc.go (CDC),
// s3.go (OBJECTS).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() { program.Main(run) }

type config struct {
	only   string
	shapes string
	rounds int
	scale  float64
	out    string
	binary string
	form   string
}

// A line is one of the contract.
type line struct {
	id, measure string
	run         func(context.Context, *lab) error
}

func lines() []line {
	return []line{
		{"S1", "JetStream, map, JetStream", measureNATS},
		{"S2", "Kafka, map, Kafka, 16 partitions, order by key", measureKafka},
		{"S3", "NDJSON file, map, file", measureFile},
		{"S4", "WebSocket echo, 64 connections, 128 B", measureEcho},
		{"S5", "server-sent events, 1,000 clients, 20 parts a second", measureParts},
		{"S6", "CSV file, map, PostgreSQL", measureJob},
		{"S7", "process that waits: start, await, answer", measureProcess},
		{"S8", "answers of a model, 100 streams, 50 tokens a second", measureLLM},
		{"REDIS", "stream of Redis, map, stream", measureRedis},
		{"AMQP", "queue of RabbitMQ, map, queue", measureAMQP},
		{"MQTT", "topic of mosquitto, map, topic", measureMQTT},
		{"CDC", "changes of PostgreSQL, map, stream of Redis", measureCDC},
		{"OBJECTS", "objects of S3, map, objects", measureS3},
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c config
	var chosen []line
	flags := program.Flags("streams")
	flags.StringVar(&c.only, "only", "", "measure these `lines` only, as in S1,S3")
	flags.StringVar(&c.shapes, "shape", "order,log", "of the messages, a `list`: order, log")
	flags.IntVar(&c.rounds, "rounds", 5, "how many `rounds` a median is of")
	flags.Float64Var(&c.scale, "scale", 1, "the `share` of the messages to use")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`")
	flags.StringVar(&c.binary, "binary", filepath.Join("dist", "uniflow"), "the `program` to measure")
	flags.StringVar(&c.form, "form", "", "be this `form` of a baseline: its name and its arguments, a line each")
	check := func() error {
		if c.rounds < 1 || c.scale <= 0 {
			return errors.New("-rounds and -scale must be positive")
		}
		for l := range strings.SplitSeq(c.shapes, ",") {
			if !slices.Contains(shapes(), l) {
				return fmt.Errorf("-shape: %q is not one of %s", l, strings.Join(shapes(), ", "))
			}
		}
		for _, l := range lines() {
			if c.only == "" || slices.Contains(strings.Split(strings.ToUpper(c.only), ","), l.id) {
				chosen = append(chosen, l)
			}
		}
		if len(chosen) == 0 {
			return fmt.Errorf("-only: there is no line %q, only S1 to S8, REDIS, AMQP, MQTT, CDC and OBJECTS", c.only)
		}
		return nil
	}
	return program.Run(flags, args, stderr, check, func() (bool, error) {
		if c.form != "" {
			name, args, _ := strings.Cut(c.form, "\n")
			form, ok := forms()[name]
			if !ok {
				return false, fmt.Errorf("-form: there is no %q", name)
			}
			return true, form(ctx, strings.Split(args, "\n"))
		}
		return measureAll(ctx, c, chosen, stdout, stderr)
	})
}

func measureAll(ctx context.Context, c config, chosen []line, stdout, stderr io.Writer) (ok bool, err error) {
	l, err := newLab(c, stderr)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for _, line := range chosen {
		l.Progress("%s: %s", line.id, line.measure)
		if err := line.run(ctx, l); err != nil {
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			return false, fmt.Errorf("%s: %w", line.id, err)
		}
	}
	facts := program.Inspect(ctx)
	fmt.Fprintln(stdout, facts)
	if err := l.table.Print(stdout, ""); err != nil {
		return false, err
	}
	if err := l.targets.Print(stdout); err != nil {
		return false, err
	}
	return l.targets.Correct(), program.Write(filepath.Join(c.out, "streams.json"), map[string]any{
		"machine": facts, "sides": l.sides, "targets": l.targets,
	})
}
