package parts

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// A handedWriter counts what a handler answers that has taken over an exchange, and sets
// the headers that each answer has. A client that does not take the answer obeys the limits
// of any answer: see [pace.Writer].
//
// Over HTTP/2, the end of an answer is left to net/http, which sends it when the handler has
// returned: see pace.TailBytes. An answer that the handler flushes is sent as it is written, so that
// the stream ends with an empty frame if the handler returns later.
type handedWriter struct {
	http.ResponseWriter
	p            *Parts
	status, size int
	length       int64 // Content-Length; -1 without
	flushed      bool  // ever
	left         bool  // something has been written since
}

// begin is called before the header is sent, and does nothing afterwards.
func (w *handedWriter) begin(status int) {
	if w.status == 0 {
		w.status = status
		w.p.env.SetHeaders(w.Header(), false)
		w.length = -1
		if length := w.Header()["Content-Length"]; len(length) == 1 && w.p.env.R.ProtoMajor == 2 {
			if n, err := strconv.ParseInt(length[0], 10, 64); err == nil {
				w.length = n
			}
		}
	}
}

func (w *handedWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *handedWriter) Write(p []byte) (n int, err error) {
	w.begin(http.StatusOK)
	if w.p.env.R.ProtoMajor < 2 {
		n, err = w.ResponseWriter.Write(p)
	} else {
		n, err = w.send(p)
	}
	w.size += n
	w.left = w.left || n > 0
	return n, err
}

// send sends over HTTP/2 or HTTP/3, where nothing sends the header.
func (w *handedWriter) send(p []byte) (n int, err error) {
	if end := len(p) - w.tail(len(p)); end > 0 {
		if n, err = w.p.out.Send(w.p.env.R.Context(), p[:end], false); err != nil || n == len(p) {
			return n, err
		}
	}
	m, err := w.p.out.Send(w.p.env.R.Context(), p[n:], false)
	return n + m, err
}

// tail returns how much of a write may be the end of the answer, and is left to net/http.
func (w *handedWriter) tail(n int) int {
	ends := !w.flushed
	if w.length >= 0 {
		ends = int64(w.size+n) >= w.length
	}
	if !ends || w.p.env.R.ProtoMajor != 2 {
		return 0
	}
	return min(n, pace.TailBytes)
}

// ReadFrom sends all of src. The kernel sends a file by itself, over HTTP/1 without TLS.
func (w *handedWriter) ReadFrom(src io.Reader) (int64, error) {
	from, ok := w.ResponseWriter.(io.ReaderFrom)
	if _, _, isFile := pace.FileOf(src); !ok || !isFile || w.p.env.R.ProtoMajor > 1 || w.p.env.R.TLS != nil {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	w.begin(http.StatusOK)
	n, err := from.ReadFrom(src)
	w.size += int(n)
	return n, err
}

// FlushError flushes what was written: see [http.ResponseController].
func (w *handedWriter) FlushError() error {
	w.begin(http.StatusOK)
	w.flushed, w.left = true, false
	_, err := w.p.out.Send(w.p.env.R.Context(), nil, true)
	return err
}

// Hijack takes the connection: see [http.ResponseController]. What comes of it is not an answer
// of HTTP any more.
func (w *handedWriter) Hijack() (conn net.Conn, rw *bufio.ReadWriter, err error) {
	conn, rw, err = http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Unwrap lets a handler set deadlines.
func (w *handedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// HandOver lets a handler answer in place of the process, which has ended. A handler that
// breaks its answer off, by a panic with [http.ErrAbortHandler], is counted and logged with
// what it has sent; the connection, or the stream, ends then.
func (p *Parts) HandOver(h http.Handler) (e Ended) {
	w := &handedWriter{ResponseWriter: p.env.W, p: p}
	defer func() {
		if panicked := recover(); panicked == http.ErrAbortHandler {
			e = Ended{Status: cmp.Or(w.status, http.StatusInternalServerError), Size: w.size, Cut: true}
		} else if panicked != nil {
			panic(panicked)
		}
	}()
	h.ServeHTTP(w, p.env.R)
	p.Upload.End()
	w.begin(http.StatusOK)
	p.out.Leave(w.left && w.size > 2*pace.TailBytes)
	return Ended{Status: w.status, Size: w.size}
}
