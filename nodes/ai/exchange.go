package ai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/format/sse"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/value"
)

// An exchange is one request and its answer, as far as it has come. One goroutine at a time
// uses it.
type exchange struct {
	r       *run
	ctx     context.Context // of the process
	limited context.Context
	stop    context.CancelCauseFunc
	timer   *time.Timer // ends the exchange when the server is silent; nil without a limit
	resp    *http.Response
	body    *heardBody
	events  *sse.Reader // nil if the answer is one document
	reply   reply
	done    bool
}

// begin sends a request, again if need be, and reads up to the first piece of text.
func (r *run) begin(ctx context.Context, body []byte) (x *exchange, piece string, err error) {
	for failed := 1; ; failed++ {
		began := time.Now()
		x, err = r.send(ctx, body)
		if err == nil {
			piece, err = x.next()
			if err == nil {
				r.n.counts.first(time.Since(began))
				return x, piece, nil
			}
		}
		var f *failure
		if errors.As(err, &f) && f.free() {
			x.close()
		} else {
			r.finish(x)
		}
		r.n.counts.failed(err)
		if f == nil || !f.again || failed > r.n.retries {
			return nil, "", err
		}
		wait, ok := r.n.backoff.After(failed, f.after)
		if !ok {
			return nil, "", err
		}
		r.n.counts.do(func(t *tally) { t.retries++ })
		if err := r.n.clock.Sleep(ctx, wait); err != nil {
			return nil, "", err
		}
	}
}

// send sends a request, and returns when the header of the answer is there. The exchange
// must be closed, also after an error.
func (r *run) send(ctx context.Context, body []byte) (*exchange, error) {
	n := r.n
	x := &exchange{r: r, ctx: ctx}
	x.limited, x.stop = context.WithCancelCause(ctx)
	if n.timeout > 0 {
		limited, cancel := context.WithTimeoutCause(x.limited, n.timeout, errTimeout)
		stop := x.stop
		x.limited, x.stop = limited, func(err error) { stop(err); cancel() }
	}
	if n.silence > 0 {
		stop := x.stop
		x.timer = time.AfterFunc(n.silence, func() { stop(errSilence) })
	}
	req, err := http.NewRequestWithContext(x.limited, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return x, &failure{code: "request", text: "the request cannot be made"}
	}
	req.Header = n.header.Clone()
	x.resp, err = n.http.Do(req)
	if err != nil {
		return x, n.classify(ctx, x.limited, err)
	}
	if x.resp.StatusCode != http.StatusOK {
		return x, r.refused(x.resp)
	}
	x.body = &heardBody{httpclient.Limited{R: x.resp.Body, Left: int64(n.answerBytes)}, x.heard}
	if kind, _, err := mime.ParseMediaType(x.resp.Header.Get("Content-Type")); err == nil && kind == "text/event-stream" {
		x.events = sse.NewReader(x.body, n.answerBytes)
	}
	return x, nil
}

// next returns the next piece of text, "" at the end of the answer.
func (x *exchange) next() (piece string, err error) {
	if x.timer != nil { // a slow receiver is not the server's silence
		x.timer.Reset(x.r.n.silence)
		defer x.timer.Stop()
	}
	for !x.done {
		if x.events == nil {
			piece, err = x.whole()
		} else {
			piece, err = x.event()
		}
		if err != nil {
			return "", x.r.n.classify(x.ctx, x.limited, err)
		}
		if piece != "" {
			return piece, nil
		}
	}
	return "", nil
}

// heard is called when the server has sent something, if only a comment that keeps the
// connection open. After the last piece it does not wait longer for that.
func (x *exchange) heard() {
	if x.timer != nil && x.reply.finish == "" {
		x.timer.Reset(x.r.n.silence)
	}
}

// event reads an event of a stream.
func (x *exchange) event() (piece string, err error) {
	e, err := x.events.Next()
	if err != nil {
		// Some servers end without the word, or never: the answer is complete once they have
		// said why it ends. Only its usage may be missing.
		if x.ctx.Err() == nil && x.reply.finish != "" {
			x.done = true
			return "", nil
		}
		return "", err
	}
	if string(bytes.TrimSpace(e.Data)) == "[DONE]" {
		x.done = true
		return "", x.check()
	}
	doc, err := value.ParseJSON(e.Data)
	if err != nil {
		return "", &failure{code: "answer", text: "an event of the answer is not JSON"}
	}
	return x.take(doc)
}

// whole reads an answer that is one document.
func (x *exchange) whole() (piece string, err error) {
	data, err := io.ReadAll(x.body)
	if err != nil {
		return "", err
	}
	x.done = true
	doc, err := value.ParseJSON(data)
	if err != nil {
		return "", &failure{code: "answer", text: fmt.Sprintf("the answer is not JSON: is url right? (Content-Type %q)", node.Clip(x.resp.Header.Get("Content-Type"), maxQuote))}
	}
	if piece, err = x.take(doc); err != nil {
		return "", err
	}
	return piece, x.check()
}

func (x *exchange) take(doc value.Value) (string, error) {
	piece, err := x.reply.take(doc)
	var reported *serverError
	switch {
	case errors.As(err, &reported):
		f := &failure{}
		if status, ok := get(reported.doc, "code").AsInt(); ok && status >= 400 && status < 600 {
			f.status = int(status)
		}
		x.r.explain(f, reported.doc)
		switch {
		case f.code == "" && f.status != 0:
			x.r.explainStatus(f)
		case f.code == "":
			f.code, f.again, f.text = "server", true, "the server failed within the answer"+f.text
		}
		return "", f
	case err != nil:
		return "", &failure{code: "answer", text: "what came is not an answer of a model: " + err.Error()}
	}
	return piece, nil
}

// check returns an error if the end of the answer comes before its beginning.
func (x *exchange) check() error {
	if !x.reply.began {
		return &failure{code: "answer", text: "what came is not an answer of a model: " + errNotAnswer.Error()}
	}
	return nil
}

// finish ends an exchange, and counts what it has used.
func (r *run) finish(x *exchange) {
	x.close()
	x.reply.end(r.turns, r.sent)
	r.used.add(x.reply.usage)
	r.owed += x.reply.usage.total
	r.n.counts.used(x.reply.usage)
}

func (x *exchange) close() {
	if x.timer != nil {
		x.timer.Stop()
	}
	if x.resp != nil {
		if x.done && x.events != nil { // what is left is the end of the body: the connection can be used again
			late := time.AfterFunc(10*time.Millisecond, func() { x.stop(nil) }) // unless it does not come
			_, _ = io.CopyN(io.Discard, x.resp.Body, 512)
			late.Stop()
		}
		_ = x.resp.Body.Close() // what was needed of it is there
	}
	x.stop(nil)
}

// A heardBody is a body of limited length that reports when there are bytes.
type heardBody struct {
	httpclient.Limited
	heard func()
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.Limited.Read(p)
	if n > 0 {
		b.heard()
	}
	return n, err
}
