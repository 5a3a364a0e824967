package files

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/value"
)

// begin goes on at the end of a file, after it has mended what a crash has left there.
func (out *output) begin(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	out.size, out.since, out.dirty = info.Size(), info.ModTime(), false
	if out.size == 0 {
		out.since = out.o.clock.Now()
		return nil
	}
	if out.o.format.Name != format.Raw {
		if err := out.mend(f); err != nil {
			return fmt.Errorf("mend the end of %s: %w", out.path, err)
		}
	}
	if out.o.format.Name == format.CSV && out.o.format.Columns == nil {
		r := format.NewReader(io.NewSectionReader(f, 0, out.size), out.o.format, 0, 1)
		r.End()
		if _, err := r.Read(nil, 1, 1); err != nil && err != io.EOF {
			return fmt.Errorf("the columns of %s: %w", out.path, err)
		}
		out.enc.SetColumns(r.Columns())
	}
	return nil
}

// maxTorn is how long a torn line may be that is read as a whole.
const maxTorn = 64 << 20

// mend ends or cuts off a last line without its end.
func (out *output) mend(f *os.File) error {
	start, line := out.size, []byte(nil)
	for piece := int64(4 << 10); start > 0 && out.size-start < maxTorn; piece *= 4 {
		n := min(piece, start)
		b := make([]byte, n, n+int64(len(line)))
		if _, err := f.ReadAt(b, start-n); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			line = append(b[i+1:], line...)
			start += int64(i+1) - n
			break
		}
		line = append(b, line...)
		start -= n
	}
	if len(line) == 0 {
		return nil
	}
	if _, err := value.ParseJSON(line); err != nil && out.o.format.Name == format.NDJSON {
		out.o.log.Warn("a torn line was cut off", "path", out.path, "bytes", out.size-start)
		out.size = start
		return f.Truncate(start)
	}
	n, err := f.Write([]byte{'\n'})
	out.size += int64(n)
	return err
}
