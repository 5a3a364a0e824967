package loader

import (
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxKey is how long a key may be, in bytes.
const maxKey = 255

// retryAfter is how many seconds clients wait before they try again: the shortest
// time that the header can express.
const retryAfter = "1"

// Server limits against slow clients.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	writeTimeout  = 30 * time.Second
	drainTimeout  = 2 * time.Second // for the rest of a refused body
	headerBytes   = 16 << 10
)

// Server returns an HTTP server for the loader, with limits for slow clients and
// large headers. The caller starts and closes it.
func (l *Loader) Server() *http.Server {
	return &http.Server{
		Handler: l.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(l.log.Handler(), slog.LevelDebug),
	}
}

// Handler answers POST /batch, GET /metrics and GET /health. It limits the time of a
// body, but not of the headers: see [Loader.Server].
func (l *Loader) Handler() http.Handler {
	metrics := l.metrics.handler(l.log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.deadlines(w)
		switch r.URL.Path {
		case "/batch":
			l.serveBatch(w, r)
		case "/metrics":
			if isRead(w, r) {
				metrics.ServeHTTP(w, r)
			}
		case "/health":
			if isRead(w, r) {
				l.serveHealth(w)
			}
		default:
			writeError(w, refusef(http.StatusNotFound, "not found: POST events to /batch, GET /health or /metrics"))
		}
	})
}

// isRead refuses methods other than GET and HEAD.
func isRead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	writeError(w, refusef(http.StatusMethodNotAllowed, "want GET, got %.20q", r.Method))
	return false
}

// serveHealth answers 503 while events cannot be written.
func (l *Loader) serveHealth(w http.ResponseWriter) {
	if why := l.failing.Load(); why != nil {
		writeError(w, cannotWrite(*why))
		return
	}
	write(w, http.StatusOK, []byte(`{"status":"ok"}`+"\n"))
}

func cannotWrite(why string) error {
	return &refusal{http.StatusServiceUnavailable, "events cannot be written: " + why, true}
}

// write answers with JSON. An error of writing is ignored: the client has gone.
func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // see above
}

// writeError answers with {"error":"…"}.
func writeError(w http.ResponseWriter, err error) int {
	r := &refusal{status: http.StatusInternalServerError, text: err.Error()}
	errors.As(err, &r)
	if r.retry {
		w.Header().Set("Retry-After", retryAfter)
	}
	body := appendString([]byte(`{"error":`), r.text)
	write(w, r.status, append(body, '}', '\n'))
	return r.status
}

// serveBatch takes a batch and answers.
func (l *Loader) serveBatch(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	status, err := l.take(w, r)
	if err != nil {
		l.counts.refused.Add(1)
		if !errors.Is(err, errSlow) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout)) // see deadlines
			l.drain(r)
		}
		status = writeError(w, err)
	}
	l.metrics.requests.WithLabelValues(strconv.Itoa(status)).Observe(time.Since(began).Seconds())
}

// drain reads the rest of a body, within limits: a client whose connection is closed
// while it sends may not see the answer. A client that sent Expect waits for the
// answer before it sends the body.
func (l *Loader) drain(r *http.Request) {
	if r.Header.Get("Expect") != "" {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, l.opts.MaxBody) // an error means that there is no more
}

// deadlines limits the time of a body and an answer. The writers of tests do not
// support deadlines.
func (l *Loader) deadlines(w http.ResponseWriter) {
	c, now := http.NewResponseController(w), time.Now()
	_ = c.SetReadDeadline(now.Add(l.opts.BodyTimeout))                 // see above
	_ = c.SetWriteDeadline(now.Add(l.opts.BodyTimeout + writeTimeout)) // see above
}

// take takes a batch and answers it. The error is a refusal, which is not answered
// yet.
func (l *Loader) take(w http.ResponseWriter, r *http.Request) (status int, err error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return 0, refusef(http.StatusMethodNotAllowed, "want POST, got %.20q", r.Method)
	}
	key, err := keyOf(r.Header)
	if err != nil {
		return 0, err
	}
	ndjson, coding, err := formOf(w, r.Header)
	if err != nil {
		return 0, err
	}
	in, err := l.enter()
	if err != nil {
		return 0, err
	}
	defer l.leave(in)
	in.req = request{key: key, done: in.req.done}
	if key != "" {
		in.req.digest = digestOf(key)
		if o, ok := l.window.find(in.req.digest); ok {
			l.drain(r)
			return l.answer(w, in, o, true), nil
		}
	}
	if why := l.failing.Load(); why != nil {
		return 0, cannotWrite(*why)
	}
	if err := l.read(in, r, coding); err != nil {
		return 0, err
	}
	if err := l.admit(in); err != nil {
		return 0, err
	}
	if err := l.unpack(in, coding); err != nil {
		return 0, err
	}
	if err := l.parse(in, ndjson); err != nil {
		return 0, err
	}
	in.req.lines, in.req.accepted = in.split.out, in.split.events
	in.req.rejected, in.req.refused = in.split.rejected, in.split.refused
	in.req.split, in.req.batch = &in.split, in.split.batch
	l.queue <- &in.req // it has room
	<-in.req.done
	var refused *refusal
	switch {
	case errors.As(in.req.err, &refused):
		return 0, refused
	case in.req.err != nil:
		return 0, cannotWrite(in.req.err.Error())
	}
	return l.answer(w, in, in.req.answer, in.req.duplicate), nil
}

// answer answers a batch that was taken.
func (l *Loader) answer(w http.ResponseWriter, in *input, o outcome, duplicate bool) int {
	if duplicate {
		l.counts.duplicates.Add(1)
	}
	b := append(in.answer[:0], `{"accepted":`...)
	b = strconv.AppendUint(b, uint64(o.accepted), 10)
	b = append(b, `,"duplicate":`...)
	b = strconv.AppendBool(b, duplicate)
	if o.rejected != "" {
		b = append(b, `,"rejected":[`...)
		b = append(append(b, o.rejected...), ']')
	}
	in.answer = append(b, '}', '\n')
	write(w, http.StatusOK, in.answer)
	return http.StatusOK
}

// keyOf returns the key of a batch, empty for none.
func keyOf(h http.Header) (string, error) {
	keys := h.Values("Idempotency-Key")
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1:
		return "", refusef(http.StatusBadRequest, "want one header Idempotency-Key, got %d", len(keys))
	case len(keys[0]) > maxKey:
		return "", refusef(http.StatusBadRequest, "the Idempotency-Key has %d bytes, more than %d", len(keys[0]), maxKey)
	}
	return keys[0], nil
}

// formOf returns the format of a body.
func formOf(w http.ResponseWriter, h http.Header) (ndjson bool, c coding, err error) {
	given := h.Get("Content-Type")
	media, params, err := mime.ParseMediaType(given)
	charset := strings.ToLower(params["charset"])
	switch {
	case err == nil && media == "application/json":
	case err == nil && media == "application/x-ndjson":
		ndjson = true
	default:
		w.Header().Set("Accept-Post", "application/json, application/x-ndjson")
		return false, 0, refusef(http.StatusUnsupportedMediaType, "want the Content-Type application/json for an array of events, or application/x-ndjson, got %.80q", given)
	}
	if charset != "" && charset != "utf-8" {
		return false, 0, refusef(http.StatusUnsupportedMediaType, "want the charset utf-8, got %.80q", charset)
	}
	switch given := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ","))); given {
	case "", "identity":
		return ndjson, identity, nil
	case "gzip", "x-gzip":
		return ndjson, gzipped, nil
	case "zstd":
		return ndjson, zstandard, nil
	default:
		w.Header().Set("Accept-Encoding", "gzip, zstd, identity")
		return false, 0, refusef(http.StatusUnsupportedMediaType, "want the Content-Encoding gzip, zstd or identity, got %.80q", given)
	}
}
