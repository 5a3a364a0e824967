package web

import "net/http"

// A handedWriter counts what a handler answers that has taken over an exchange, and sets
// the headers that each answer has.
type handedWriter struct {
	http.ResponseWriter
	x            *exchange
	status, size int
}

// begin is called before the header is sent, and does nothing afterwards.
func (w *handedWriter) begin(status int) {
	if w.status == 0 {
		w.status = status
		w.x.setFixed(w.Header(), w.x.requestID)
	}
}

func (w *handedWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *handedWriter) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.size += n
	return n, err
}

// FlushError flushes what was written: see [http.ResponseController].
func (w *handedWriter) FlushError() error {
	w.begin(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap lets a handler set deadlines and take the connection.
func (w *handedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// handOver lets a handler answer in place of the process, which has ended.
func (x *exchange) handOver(h http.Handler) (status, size int) {
	x.dropPayload()
	x.release()
	if x.closeConn && x.r.ProtoMajor < 3 {
		x.w.Header()["Connection"] = headerClose
	}
	w := &handedWriter{ResponseWriter: x.w, x: x}
	h.ServeHTTP(w, x.r)
	w.begin(http.StatusOK)
	return w.status, w.size
}
