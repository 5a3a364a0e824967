package files

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed stdout.md
var stdoutPage string

// Stdout is the kind of nodes that write to the standard output.
const Stdout = "stdout"

func stdoutSink() stream.Sink {
	return stream.Sink{
		Kind:    Stdout,
		Summary: "Writes records to the standard output of the program.",
		Page:    node.ReadPage(stdoutPage),
		Config:  schema.Fields(outputFields()...),
		Raw:     true,
		Open: func(init *node.Init) (stream.Writer, error) {
			o, err := newOutput(init)
			c := &console{encoder: format.NewEncoder(o), csv: o.Name == format.CSV, log: init.Log, terminate: terminate}
			return newSink(init, c.open, c.close), err
		},
	}
}

// consoleLines keeps the lines of several nodes from mixing.
var consoleLines sync.Mutex

// A console is the standard output, as one node writes it.
type console struct {
	csv       bool
	log       *slog.Logger
	terminate func() error

	mu      sync.Mutex
	encoder *format.Encoder
	header  bool // was written

	file   *os.File
	closed bool // the reader has gone
}

func (c *console) open(string) (target, error) {
	f, err := standardOutput()
	if err != nil {
		return nil, fmt.Errorf("open the standard output: %w", err)
	}
	c.file = f
	return c, nil
}

func (c *console) close(target) error {
	if c.file == os.Stdout {
		return nil
	}
	return c.file.Close()
}

func (c *console) name() string { return "stdout" }

func (c *console) tick() error { return nil }

func (c *console) encode(dst []byte, v value.Value) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, err := c.encoder.Append(dst, v)
	if err != nil || !c.csv || c.header {
		return out, err
	}
	c.header = true
	row := string(out[len(dst):])
	return append(c.encoder.AppendHeader(dst), row...), nil
}

// errClosed is the error of records after the reader has gone.
var errClosed = &node.Error{Err: errors.New("the standard output is closed"), Code: "closed", Status: 503}

func (c *console) write(b *batch) []written {
	consoleLines.Lock()
	defer consoleLines.Unlock()
	result := make([]written, len(b.records))
	n, err := 0, error(errClosed)
	if !c.closed {
		n, err = c.file.Write(b.data)
	}
	if errors.Is(err, syscall.EPIPE) {
		err, c.closed = errClosed, true
		c.log.Error("the standard output is closed: the program ends")
		if err := c.terminate(); err != nil {
			c.log.Error("the program does not end by itself", "err", err)
		}
	}
	for i, r := range b.records {
		if err != nil && r.end > n {
			result[i].err = err
		}
	}
	return result
}
