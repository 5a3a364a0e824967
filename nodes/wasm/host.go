package wasm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

const (
	stepsAtATime = 20_000 // of a module, until it is asked whether its time is over: 20 µs
	mostLogged   = 100    // messages that a call may write to the log
	longestLog   = 4 << 10
)

// hostFunctions adds what modules may import of the host module.
func hostFunctions(b wazero.HostModuleBuilder) wazero.HostModuleBuilder {
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	export := func(name string, f func(i *instance, stack []uint64), params, results []api.ValueType) {
		b = b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
			f(ctx.Value(instanceKey{}).(*instance), stack)
		}), params, results).Export(name)
	}
	export("log", func(i *instance, stack []uint64) { i.log(uint32(stack[0]), uint32(stack[1]), uint32(stack[2])) }, []api.ValueType{i32, i32, i32}, nil)
	export("now", func(i *instance, stack []uint64) { stack[0] = uint64(i.now().UnixNano()) }, nil, []api.ValueType{i64})
	export(interruptName, func(i *instance, stack []uint64) {
		i.look()
		stack[0] = stepsAtATime
	}, nil, []api.ValueType{i32})
	return b
}

// A stopped ends a call from inside of a function of the host.
type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }
func (s *stopped) Unwrap() error { return s.err }

var errTimeout = errors.New("the time is over")

// look ends the call if its time is over, or its process has ended.
func (i *instance) look() {
	switch {
	case i.guest.closing.Load():
		panic(&stopped{context.Canceled})
	case i.call.Err() != nil:
		panic(&stopped{context.Cause(i.call)})
	}
	now := time.Now()
	if i.deadline.IsZero() {
		i.deadline = now.Add(i.timeout)
	}
	if now.After(i.deadline) {
		panic(&stopped{errTimeout})
	}
}

func (i *instance) now() time.Time {
	i.asked = true
	return i.guest.init.Clock.Now()
}

func (i *instance) log(level, ptr, n uint32) {
	text, ok := i.memory.Read(ptr, min(n, longestLog))
	if !ok {
		panic(&stopped{fmt.Errorf("the module logs %d bytes at %#x, which are outside of its memory", n, ptr)})
	}
	levels := []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	i.write(levels[min(int(level), len(levels)-1)], string(text))
}

// write writes to the node's log. What is an error is also a part of the message when the module
// fails.
func (i *instance) write(level slog.Level, text string) {
	text = strings.ToValidUTF8(strings.TrimRight(text, "\n"), "\uFFFD")
	if level >= slog.LevelError && i.said == "" {
		i.said = text
	}
	switch i.logged++; {
	case i.logged < mostLogged:
		i.guest.init.Log.Log(i.call, level, text)
	case i.logged == mostLogged:
		i.guest.init.Log.Log(i.call, slog.LevelWarn, "the module writes more to the log in one call, which is left out")
	}
}

// An output is the standard output or the standard error of a module: each line goes to the log.
type output struct {
	instance *instance
	level    slog.Level
	line     []byte
}

func (s *output) Write(p []byte) (n int, err error) {
	for _, b := range p {
		if b != '\n' && len(s.line) < longestLog {
			s.line = append(s.line, b)
			continue
		}
		if len(s.line) > 0 {
			s.instance.write(s.level, string(s.line))
		}
		if s.line = s.line[:0]; b != '\n' {
			s.line = append(s.line, b)
		}
	}
	return len(p), nil
}

// config returns how an instance is made.
func (i *instance) config() wazero.ModuleConfig {
	g := i.guest
	c := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").
		WithStdout(&output{instance: i, level: slog.LevelInfo}).WithStderr(&output{instance: i, level: slog.LevelError}).
		WithRandSource(chance{i}).WithSysNanotime().WithNanosleep(i.sleep).
		WithWalltime(func() (int64, int32) {
			now := i.now()
			return now.Unix(), int32(now.Nanosecond())
		}, 1)
	for name, text := range g.s.Env {
		c = c.WithEnv(name, text)
	}
	if len(g.roots) > 0 {
		folders := wazero.NewFSConfig()
		for at, root := range g.roots {
			folders = folders.WithFSMount(root.FS(), g.folders[at].guest)
		}
		c = c.WithFSConfig(folders)
	}
	return c
}

// chance is the source of random numbers of a module.
type chance struct{ *instance }

func (c chance) Read(p []byte) (n int, err error) {
	c.asked = true
	return rand.Read(p)
}

// sleep waits as the module asks, until the time of the call is over.
func (i *instance) sleep(nanos int64) {
	i.look()
	timer := time.NewTimer(min(time.Duration(nanos), time.Until(i.deadline)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-i.call.Done():
	}
	i.look()
}
