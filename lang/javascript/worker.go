package javascript

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

// Memory limits of a worker.
const (
	workerMemory = 1 << 30   // bytes of data; the system refuses more, which ends it
	workerGoal   = 768 << 20 // bytes from which garbage is collected more and more often
)

// Serve makes this process a worker: it evaluates requests of another process from in, and
// responds to out, until the end of in. It limits the memory of the process. It ignores
// signals that a terminal or a service manager sends to all processes of a group, because
// the other process may still need the worker.
//
// The process must exit when Serve returns: an evaluation may still run.
func Serve(in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	debug.SetMemoryLimit(workerGoal)
	if err := limitMemory(workerMemory); err != nil {
		return fmt.Errorf("limit of memory: %w", err)
	}
	if err := closeInherited(); err != nil {
		return fmt.Errorf("close what is inherited: %w", err)
	}
	s := &server{out: out, pool: newPool()}
	frames := make(chan func() error) // at most one, because the next comes after the response
	var evaluator sync.WaitGroup      // Serve does not wait for it: see above
	evaluator.Go(func() {
		for answer := range frames {
			if answer() != nil {
				return // the other process has ended, so in ends too
			}
		}
	})
	from := bufio.NewReader(in)
	for {
		o, buf, err := readFrame(from)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		frames <- func() error { return s.answer(o, buf) }
	}
}

// A server is a worker. It is owned by the goroutine that evaluates.
type server struct {
	out     io.Writer
	pool    *pool
	program *program
}

func (s *server) answer(o op, buf []byte) error {
	r := reader{Reader: wire.Reader{Buf: buf}, worker: true}
	v, err := r.whole()
	switch {
	case err != nil:
	case o == opModule:
		v, err = value.Null(), s.load(v)
	case o == opPayload && s.program != nil:
		v, err = s.program.Eval(context.Background(), v)
	default:
		err = errFrame
	}
	var w writer
	if err == nil {
		var frame []byte
		if frame, err = w.frame(opResult, v); err == nil {
			_, err = s.out.Write(frame)
			return err
		}
	}
	return s.say(opFailure, failure(err))
}

func (s *server) say(o op, fields any) error {
	v, err := value.Encode(fields)
	if err != nil {
		return err
	}
	var w writer
	frame, err := w.frame(o, v)
	if err != nil {
		return err
	}
	_, err = s.out.Write(frame)
	return err
}

func (s *server) load(v value.Value) error {
	var from moduleFrame
	if err := value.Decode(v, &from); err != nil {
		return err
	}
	code := diag.PlainText(from.Code)
	m, err := newModule(from.Script, from.Map)
	if err != nil {
		return err
	}
	s.program = &program{pool: s.pool, code: code, root: from.Root, timeout: from.Timeout}
	if from.Log {
		s.program.log = slog.New(recorder{s})
	}
	s.program.exports(m)
	if from.Probe {
		return s.program.probe(m)
	}
	return s.pool.warm()
}

func failure(err error) failureFrame {
	const longest = 1 << 20 // bytes of a message
	f := failureFrame{Message: cut(err.Error(), longest)}
	var timeout *lang.Timeout
	var thrown *lang.Thrown
	switch {
	case errors.As(err, &timeout):
		f.After = timeout.After
	case errors.As(err, &thrown):
		f.Thrown, f.Status, f.Code, f.Public = true, thrown.Status, cut(thrown.Code, longest), thrown.Public
		f.File, f.Line, f.Col = thrown.Pos.File, thrown.Pos.Line, thrown.Pos.Col
	}
	return f
}

// A recorder sends log records to the other process, which filters them.
type recorder struct{ s *server }

func (recorder) Enabled(context.Context, slog.Level) bool { return true }

func (h recorder) Handle(_ context.Context, r slog.Record) error {
	f := recordFrame{Level: int(r.Level), Message: r.Message, Attrs: map[string]string{}}
	r.Attrs(func(a slog.Attr) bool {
		f.Attrs[a.Key] = a.Value.String()
		return true
	})
	return h.s.say(opRecord, f)
}

func (h recorder) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h recorder) WithGroup(string) slog.Handler { return h }
