package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// A lab is where measurements are made. This program is the baselines, too.
type lab struct {
	config
	*program.Lab
	table   program.Table
	targets program.Targets
	sides   []side
}

// A side is one way to do the work of a line, with the medians of its rounds.
type side struct {
	Line  string  `json:"line"`
	Name  string  `json:"name"`
	Rate  float64 `json:"rate"`            // messages a second
	CPU   float64 `json:"cpu,omitempty"`   // microseconds of processor time a message
	Peak  float64 `json:"peak,omitempty"`  // resident memory, MB
	Other float64 `json:"other,omitempty"` // what else the line is about
}

func newLab(c config, log io.Writer) (*lab, error) {
	at, err := program.NewLab(c.binary, log)
	l := &lab{config: c, Lab: at}
	l.table.Row("", "messages/s", "of the baseline", "µs of CPU", "MB resident")
	return l, err
}

func (l *lab) write(name, text string) (path string, err error) {
	path = l.File(name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// count returns how many messages to use of a number.
func (l *lab) count(n int) int { return max(1000, int(float64(n)*l.scale)) }

// A cost is what a process used.
type cost struct {
	wall, cpu time.Duration
	peak      float64 // MB
}

// do runs a program to its end.
func (l *lab) do(ctx context.Context, program string, args ...string) (cost, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Dir = l.Dir
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, output.String())
	}
	c := cost{wall: time.Since(begun), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.peak = float64(usage.Maxrss) / 1e3
	}
	return c, nil
}

// form runs a form of a baseline to its end.
func (l *lab) form(ctx context.Context, name string, args ...string) (cost, error) {
	return l.do(ctx, l.Self, formArgs(name, args...)...)
}

// formArgs are the arguments with which this program is a form of a baseline.
func formArgs(name string, args ...string) []string {
	return []string{"-form", strings.Join(append([]string{name}, args...), "\n")}
}

// forms are the baselines that run in processes of their own.
func forms() map[string]func(context.Context, []string) error {
	return map[string]func(context.Context, []string) error{
		"file": fileForm, "echo": echoForm, "parts": partsForm, "job": jobForm, "nats": natsForm, "kafka": kafkaForm, "kafka transactions": kafkaTransactionForm, "llm": llmForm, "redis": redisForm, "amqp": amqpForm, "mqtt": mqttForm, "cdc": cdcForm, "s3": s3Form,
	}
}

// A round is one way to do the work, which returns what it cost for how many messages.
type round struct {
	name string
	run  func(context.Context) (cost, int, error)
}

// servers are the rounds of a measurement of servers: of ours with a document, which gets the
// port, and of the handlers by hand, which get more arguments. measure gets each server, which
// is stopped afterwards.
func (l *lab) servers(name string, document func(port string) string, handlers []string, measure func(context.Context, string, *server.Server) (cost, int, error), more ...string) []round {
	side := func(name string, start func(context.Context) (*server.Server, error)) round {
		return round{name, func(ctx context.Context) (c cost, n int, err error) {
			s, err := start(ctx)
			if err != nil {
				return cost{}, 0, err
			}
			defer func() { err = errors.Join(err, s.Stop()) }()
			return measure(ctx, name, s)
		}}
	}
	rounds := []round{side("uniflow", server.Workflow{Name: name, Document: document, Program: l.Binary, Dir: l.Dir}.Serve)}
	for _, handler := range handlers {
		form := strings.TrimPrefix(handler, "a ")
		rounds = append(rounds, side("handler with "+handler, func(ctx context.Context) (*server.Server, error) {
			addr, err := server.FreeAddr()
			if err != nil {
				return nil, err
			}
			return server.Start(ctx, server.Options{
				Name: name + "-" + form, Addr: addr, Path: "/ping", Program: l.Self,
				Args: formArgs(name, append([]string{form, addr, l.span().String()}, more...)...), Log: l.File(name + ".log"),
			})
		}))
	}
	return rounds
}

// compare runs all sides in turns, of which the first and those named uniflow are ours, and
// enters their medians. It returns the first, and the fastest of the baselines.
func (l *lab) compare(ctx context.Context, id string, rounds ...round) (ours, best side, err error) {
	rates, cpus, peaks := make([][]float64, len(rounds)), make([][]float64, len(rounds)), make([][]float64, len(rounds))
	err = program.Turns(l.rounds, len(rounds), func(i int) error {
		c, messages, err := rounds[i].run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", rounds[i].name, err)
		}
		rates[i] = append(rates[i], float64(messages)/c.wall.Seconds())
		cpus[i] = append(cpus[i], c.cpu.Seconds()*1e6/float64(messages))
		peaks[i] = append(peaks[i], c.peak)
		return nil
	})
	if err != nil {
		return ours, best, err
	}
	var sides []side
	for i := range rounds {
		sides = append(sides, side{Line: id, Name: rounds[i].name, Rate: program.Median(rates[i]), CPU: program.Median(cpus[i]), Peak: program.Median(peaks[i])})
	}
	for _, s := range sides[1:] {
		if s.Rate > best.Rate && !strings.HasPrefix(s.Name, "uniflow") {
			best = s
		}
	}
	for _, s := range sides {
		l.table.Row(id+" "+s.Name, fmt.Sprintf("%.0f", s.Rate), fmt.Sprintf("%.2f", s.Rate/best.Rate), fmt.Sprintf("%.2f", s.CPU), fmt.Sprintf("%.0f", s.Peak))
	}
	l.sides = append(l.sides, sides...)
	return sides[0], best, nil
}

// rate adds the target that ours reaches a share of the best baseline.
func (l *lab) rate(id string, ours, best side, least float64) {
	share := ours.Rate / best.Rate
	l.targets.Add(share >= least, id+", "+ours.Name+" ÷ "+best.Name, fmt.Sprintf("at least %.2f", least), fmt.Sprintf("%.2f", share))
}

// cpu adds the target of processor time a message.
func (l *lab) cpu(id string, ours, best side, most float64) {
	share := ours.CPU / best.CPU
	l.targets.Add(share <= most, id+", CPU of "+ours.Name+" ÷ "+best.Name, fmt.Sprintf("at most %.1f", most), fmt.Sprintf("%.2f", share))
}

// peak adds the target of resident memory.
func (l *lab) peak(id string, ours side, most float64) {
	l.targets.Add(ours.Peak <= most, id+", resident of "+ours.Name, fmt.Sprintf("at most %.0f MB", most), fmt.Sprintf("%.0f MB", ours.Peak))
}

// eachShape calls f for the shapes that were asked for.
func (l *lab) eachShape(f func(shape string) error) error {
	var errs []error
	for shape := range strings.SplitSeq(l.shapes, ",") {
		errs = append(errs, f(shape))
	}
	return errors.Join(errs...)
}
