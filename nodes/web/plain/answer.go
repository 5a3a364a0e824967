package plain

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Writer is the http.ResponseWriter of one answer, which has one Write at most. It writes what
// net/http would, with a Content-Length, and with one call after the request has been answered,
// so that an answer counts before its client sees it. An answer of more than 64 KiB is sent by
// Write.
type Writer struct {
	c      *conn
	r      *http.Request
	header http.Header
	status int    // 0 while it was not set
	sent   bool   // send was called
	close  bool   // the connection ends after the answer
	err    error  // of sending
	buf    []byte // to be sent
	names  []string
}

// maxBuffer is the longest answer, in bytes, that is kept until the request has been answered.
const maxBuffer = 64 << 10

// Header implements [http.ResponseWriter].
func (w *Writer) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. It sends nothing.
func (w *Writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements [http.ResponseWriter]. The data is the whole body.
func (w *Writer) Write(data []byte) (int, error) {
	if w.sent {
		return 0, http.ErrContentLength
	}
	if !w.hasBody() {
		w.send(nil)
		return 0, http.ErrBodyNotAllowed
	}
	w.send(data)
	if w.err != nil {
		return 0, w.err
	}
	return len(data), nil
}

// SetReadDeadline is for [http.ResponseController]. It does nothing if the whole body has come.
func (w *Writer) SetReadDeadline(t time.Time) error {
	if in := w.c.w; in.body.left <= in.end-in.start {
		return nil
	}
	w.c.ctx.Load().unwatch()
	return w.c.arm(t)
}

// hasBody reports whether the answer may have a body.
func (w *Writer) hasBody() bool {
	return w.r.Method != http.MethodHead && isFramed(w.status)
}

// isFramed reports whether a message of a status ends where its Content-Length says, as one of 205
// does, too, which has no body (RFC 9112, section 6.3).
func isFramed(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified && (status == 0 || status >= http.StatusOK)
}

// send sends the answer, or makes it ready for flush. What the client has not sent of the body is read first: a connection
// that is closed with unread bytes is reset, and the client may not see the answer.
func (w *Writer) send(data []byte) {
	w.sent = true
	for _, v := range w.header["Connection"] {
		w.close = w.close || strings.EqualFold(v, "close")
	}
	if w.c.w.body.left > 0 && !w.close && w.c.w.body.discard() != nil {
		w.close = true
	}
	b := w.appendHead(w.buf[:0], data)
	if len(b)+len(data) <= maxBuffer {
		b = append(b, data...)
		data = nil
	}
	w.buf = b
	if len(data) > 0 {
		if w.flush(); w.err == nil {
			_, w.err = w.c.Write(data)
		}
	}
}

// flush sends what has been written and was not sent.
func (w *Writer) flush() {
	if len(w.buf) > 0 {
		_, w.err = w.c.Write(w.buf)
		w.buf = w.buf[:0]
	}
}

// appendHead appends the status and the header of an answer with a body.
func (w *Writer) appendHead(b, data []byte) []byte {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(w.status), 10)
	b = append(b, ' ')
	if text := http.StatusText(w.status); text != "" {
		b = append(b, text...)
	} else {
		b = append(b, "status code "...)
		b = strconv.AppendInt(b, int64(w.status), 10)
	}
	b = append(b, "\r\n"...)
	w.names = w.names[:0]
	for name := range w.header {
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
	typed := false
	length := isFramed(w.status)
	for _, name := range w.names {
		switch name {
		case "Content-Type":
			if typed = true; w.status == http.StatusNotModified {
				continue
			}
		case "Content-Length":
			if !length {
				continue
			}
			length = false
		case "Content-Encoding":
			typed = typed || w.header.Get(name) != ""
		}
		for _, v := range w.header[name] {
			b = appendField(b, name, v)
		}
	}
	if !typed && len(data) > 0 {
		b = appendField(b, "Content-Type", http.DetectContentType(data))
	}
	if w.close && len(w.header["Connection"]) == 0 {
		b = append(b, "Connection: close\r\n"...)
	}
	if len(w.header["Date"]) == 0 {
		b = w.c.s.date.append(b)
	}
	if length {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(data)), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// appendField appends one header. Ends of lines in it become spaces, as in net/http.
func appendField(b []byte, name, v string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	v = textproto.TrimString(v)
	for i := range len(v) {
		c := v[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		b = append(b, c)
	}
	return append(b, "\r\n"...)
}

// A date is the Date header of the present second.
type date struct{ last atomic.Pointer[dateOf] }

type dateOf struct {
	second int64
	line   string
}

func (d *date) append(b []byte) []byte {
	now := time.Now()
	at := d.last.Load()
	if at == nil || at.second != now.Unix() {
		at = &dateOf{now.Unix(), "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		d.last.Store(at)
	}
	return append(b, at.line...)
}
