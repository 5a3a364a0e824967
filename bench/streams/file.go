package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// fileBytes is the size of the file of S3 at scale 1.
const fileBytes = 1_000_000_000

// measureFile is S3: `uniflow run` of a workflow from file to file.
func measureFile(ctx context.Context, l *lab) error {
	return l.eachShape(func(shape string) error {
		in, n, err := l.messages(shape, int64(fileBytes*l.scale))
		if err != nil {
			return err
		}
		defer os.Remove(in)
		ours := func(name, fields, code string) round {
			return round{name + ", " + shape, func(ctx context.Context) (cost, int, error) {
				document, err := l.write("file.yaml", fmt.Sprintf(`
- {kind: file_source, name: rows, paths: [%q], format: ndjson, %sports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: '%s', ports: {out: [{name: sink}]}}
- {kind: file_sink, name: sink, path: %q}
`, in, fields, code, l.File("ours.ndjson")))
				if err != nil {
					return cost{}, 0, err
				}
				_ = os.Remove(l.File("ours.ndjson"))
				c, err := l.do(ctx, l.Binary, "run", document, "--progress", "none")
				return c, n, errors.Join(err, sameLines(l.File("ours.ndjson"), n))
			}}
		}
		batched := fmt.Sprintf("self.map(m, %s)", strings.ReplaceAll(mapCode(shape), "body.", "m.body."))
		rounds := []round{ours("uniflow", "", mapCode(shape)), ours("uniflow, batches of 1,000", "max_in_flight: 4000, batch: {count: 1000}, ", batched)}
		for _, form := range []string{"pipeline", "chunks"} {
			for name := range mappers(shape) {
				rounds = append(rounds, round{form + " of " + name + ", " + shape, func(ctx context.Context) (cost, int, error) {
					c, err := l.form(ctx, "file", form, name, shape, in, l.File("theirs.ndjson"))
					return c, n, errors.Join(err, sameLines(l.File("theirs.ndjson"), n))
				}})
			}
		}
		single, best, err := l.compare(ctx, "S3", rounds...)
		if err != nil {
			return err
		}
		l.rate("S3", single, best, 0.7)
		l.peak("S3", single, 48)
		return nil
	})
}

// messages writes a file of lines of about that many bytes.
func (l *lab) messages(shape string, size int64) (path string, n int, err error) {
	path = l.File(shape + ".ndjson")
	f, err := os.Create(path)
	if err != nil {
		return "", 0, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var b []byte
	for written := int64(0); written < size; n++ {
		b, _ = appendMessage(b[:0], shape, n)
		b = append(b, '\n')
		if _, err := w.Write(b); err != nil {
			return "", 0, errors.Join(err, f.Close())
		}
		written += int64(len(b))
	}
	return path, n, errors.Join(w.Flush(), f.Close())
}

// sameLines checks that a file has n lines.
func sameLines(path string, n int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, buf := 0, make([]byte, 1<<20)
	for {
		got, err := f.Read(buf)
		lines += bytes.Count(buf[:got], []byte("\n"))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if lines != n {
		return fmt.Errorf("%s has %d lines, not %d", path, lines, n)
	}
	return nil
}

// fileForm is the baseline: form, mapper, shape, input, output.
func fileForm(_ context.Context, args []string) (err error) {
	m := mappers(args[2])[args[1]]
	in, err := os.Open(args[3])
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(args[4])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if args[0] == "chunks" {
		return mapChunks(in, out, m)
	}
	return mapPipeline(in, out, m)
}

// mapPipeline reads lines on one goroutine, and maps and writes them on another.
func mapPipeline(in io.Reader, out io.Writer, m mapper) error {
	batches, free := make(chan [][]byte, 16), make(chan [][]byte, 16)
	var reader sync.WaitGroup
	var scanned error
	reader.Go(func() {
		defer close(batches)
		s := bufio.NewScanner(in)
		s.Buffer(make([]byte, 1<<20), 16<<20)
		var batch [][]byte
		for s.Scan() {
			if len(batch) == 0 {
				select {
				case batch = <-free:
				default:
					batch = make([][]byte, 0, 256)
				}
				batch = batch[:0]
			}
			if len(batch) < cap(batch) {
				batch = batch[:len(batch)+1]
			}
			last := len(batch) - 1
			batch[last] = append(batch[last][:0], s.Bytes()...)
			if len(batch) == cap(batch) {
				batches <- batch
				batch = nil
			}
		}
		if len(batch) > 0 {
			batches <- batch
		}
		scanned = s.Err()
	})
	w := bufio.NewWriterSize(out, 1<<20)
	var b []byte
	for batch := range batches {
		for _, text := range batch {
			var err error
			if b, err = m(b[:0], text); err != nil {
				return err
			}
			if _, err := w.Write(append(b, '\n')); err != nil {
				return err
			}
		}
		select {
		case free <- batch:
		default:
		}
	}
	reader.Wait()
	return errors.Join(scanned, w.Flush())
}

// A chunk is whole lines, and what they become.
type chunk struct {
	in, out []byte
	err     error
	done    chan struct{}
}

// mapChunks reads pieces of whole lines, maps each on one of two goroutines, and writes
// them in order.
func mapChunks(in io.Reader, out io.Writer, m mapper) error {
	const size = 1 << 20
	work, order := make(chan *chunk), make(chan *chunk, 4)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for c := range work {
				for rest := c.in; len(rest) > 0 && c.err == nil; {
					i := bytes.IndexByte(rest, '\n')
					c.out, c.err = m(c.out, rest[:i])
					c.out = append(c.out, '\n')
					rest = rest[i+1:]
				}
				close(c.done)
			}
		})
	}
	var failed error
	spare := make(chan *chunk, 8)
	workers.Go(func() {
		defer close(order)
		defer close(work)
		var left []byte
		for {
			c := &chunk{in: make([]byte, 0, size+size/4), out: make([]byte, 0, size)}
			select {
			case c = <-spare:
			default:
			}
			c.in, c.out, c.done = append(c.in[:0], left...), c.out[:0], make(chan struct{})
			begin := len(c.in)
			c.in = c.in[:cap(c.in)]
			n, err := io.ReadFull(in, c.in[begin:])
			c.in = c.in[:begin+n]
			end := bytes.LastIndexByte(c.in, '\n') + 1
			left = append(left[:0], c.in[end:]...)
			c.in = c.in[:end]
			if end > 0 {
				order <- c
				work <- c
			}
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					failed = err
				}
				return
			}
		}
	})
	for c := range order {
		<-c.done
		if c.err != nil {
			return c.err
		}
		if _, err := out.Write(c.out); err != nil {
			return err
		}
		select {
		case spare <- c:
		default:
		}
	}
	workers.Wait()
	return failed
}
