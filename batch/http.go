package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// HTTPOptions are how NewHTTP sends batches. The zero value is ready to use.
type HTTPOptions struct {
	// Client makes the requests. Nil makes one which suits batches: enough idle
	// connections for every lane, HTTP/1.1, so that a lost packet holds up one
	// batch and not all, limits for connecting and for the head of the answer,
	// and no redirects, which would turn a POST into a GET.
	Client *http.Client
	// Method is the request's method. Empty means POST.
	Method string
	// Header is sent with each batch. Content-Type and Content-Encoding are set
	// by the sender, unless they are here; Idempotency-Key may not be here, as
	// every batch has its own.
	Header http.Header
	// Headers gives headers for one attempt, in addition to Header and in place
	// of those of the same name: a token that has to be renewed, for one. Each
	// attempt calls it, several concurrently, within Timeout. An error counts
	// as a failed attempt. Nil gives none.
	Headers func(ctx context.Context) (http.Header, error)
	// Verdicts say what an answer means, by its status, where that differs from
	// what NewHTTP says. Auto is as if the status were not there.
	Verdicts map[int]Verdict
	// Compression makes bodies smaller, once for all attempts. The zero value
	// sends them as they are.
	Compression Compression
	// Timeout is the longest time for one attempt, its answer included. 0
	// means 30 seconds.
	Timeout time.Duration
}

// A Compression is how the body of a batch is compressed.
type Compression uint8

const (
	// CompressionNone sends bodies as they are.
	CompressionNone Compression = iota
	// CompressionGzip compresses by gzip, which every receiver understands.
	CompressionGzip
	// CompressionZstd compresses by Zstandard: faster and smaller than gzip.
	CompressionZstd
)

// String returns the name as in Content-Encoding.
func (c Compression) String() string {
	return [...]string{"identity", "gzip", "zstd"}[c]
}

// maxAnswer bounds what is read of an answer. Verdicts on a million events fit.
const maxAnswer = 64 << 20

// NewHTTP returns a Send that posts batches to url. The body is the events in
// the processor's Format, with a Content-Length; the header Idempotency-Key is
// the batch's key, which is the same for each attempt.
//
// A 2xx says that the batch was taken. A JSON object in the answer may say more:
// {"duplicate": true} that it had been taken before, and
// {"rejected": [{"index": 3, "reason": "no id", "retry": false}]} that some of
// its events were not. Other answers are read so:
//
//	408, 425, 429, and any 5xx   Again, not before Retry-After
//	413                          Split
//	400, 422                     Bisect
//	any other                    Pause
//
// The others are of the address, the method, the form or the credentials and not
// of the events: 401, 403, 404, 405, 409, 410, 415, redirects, 101. No answer is
// VerdictRetry. 429, 503 and timeouts count as overload. HTTPOptions.Verdicts and
// Retry.Classify may see to exceptions.
func NewHTTP(url string, o HTTPOptions) (SendFunc, error) {
	h, err := newSender(url, o)
	if err != nil {
		return nil, err
	}
	return h.send, nil
}

// A sender is what NewHTTP makes.
type sender struct {
	url     string
	method  string
	header  http.Header
	headers func(context.Context) (http.Header, error)
	means   map[int]Verdict
	client  *http.Client
	packing Compression
	timeout time.Duration
}

func newSender(target string, o HTTPOptions) (*sender, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	h := &sender{
		url: target, method: o.Method, header: o.Header.Clone(), client: o.Client,
		headers: o.Headers, means: maps.Clone(o.Verdicts),
		packing: o.Compression, timeout: or(o.Timeout, 30*time.Second),
	}
	for status, v := range h.means {
		if err := need(status >= 100 && status <= 999 && v <= VerdictRefuse, fmt.Sprintf("Verdicts[%d] is %d: want a status from 100 to 999 and a Verdict", status, v)); err != nil {
			return nil, err
		}
	}
	if h.method == "" {
		h.method = http.MethodPost
	}
	if h.client == nil {
		h.client = &http.Client{Transport: transport(), CheckRedirect: noRedirect}
	}
	err = errors.Join(
		need((u.Scheme == "http" || u.Scheme == "https") && u.Host != "", fmt.Sprintf("url %q: want one such as http://host:port/batch", target)),
		need(h.packing <= CompressionZstd, fmt.Sprintf("Compression %d is not known", h.packing)),
		need(h.timeout > 0, "Timeout is negative"),
		need(h.header.Get("Idempotency-Key") == "", "Header has Idempotency-Key, of which every batch has its own"),
	)
	if err != nil {
		return nil, err
	}
	// The method is checked here rather than by the first batch.
	if _, err := http.NewRequest(h.method, target, nil); err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	return h, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func transport() *http.Transport {
	var one http.Protocols
	one.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   1024, // the largest Lanes.Max; 2 would close the others after each batch
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       arenaBytes,
		DisableCompression:    true,
		Protocols:             &one,
	}
}

func (h *sender) send(ctx context.Context, b *Batch) Outcome {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	var more http.Header
	if h.headers != nil {
		var err error
		if more, err = h.headers(ctx); err != nil {
			return Outcome{Verdict: VerdictRetry, Err: fmt.Errorf("batch: Headers: %w", err)}
		}
	}
	req, err := h.request(ctx, b, more)
	if err != nil {
		return Outcome{Verdict: VerdictRefuse, Err: err} // cannot be encoded: no attempt will differ
	}
	resp, err := h.client.Do(req)
	if err != nil {
		if timedOut(err) {
			err = fmt.Errorf("no answer within %v: %w", h.timeout, err)
			return Outcome{Verdict: VerdictRetry, Err: err, Overload: true}
		}
		return Outcome{Verdict: VerdictRetry, Err: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	out := read(resp, answer, err)
	if v := h.means[out.Status]; v != VerdictAuto {
		out.Verdict = v
		if out.Err == nil && v != VerdictAccepted {
			out.Err = statusError(resp, answer)
		}
	}
	return out
}

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// request makes a request whose body can be had again: with it and the key,
// net/http itself sends it once more when an idle connection turns out dead.
func (h *sender) request(ctx context.Context, b *Batch, more http.Header) (*http.Request, error) {
	body, size, err := b.packedBody(h.packing)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, h.method, h.url, body())
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
	if b.format == FormatArray {
		req.Header.Set("Content-Type", "application/json")
	} else if b.format == FormatLines {
		req.Header.Set("Content-Type", "application/x-ndjson")
	} else {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	if h.packing != CompressionNone {
		req.Header.Set("Content-Encoding", h.packing.String())
	}
	for _, header := range []http.Header{h.header, more} {
		maps.Copy(req.Header, header)
		if host := header.Get("Host"); host != "" {
			req.Host = host
		}
	}
	req.Header.Set("Idempotency-Key", b.key)
	return req, nil
}

// answer is what a receiver may say about a batch that it took.
type answer struct {
	Duplicate bool `json:"duplicate"`
	Rejected  []struct {
		Index  int    `json:"index"`
		Reason string `json:"reason"`
		Retry  bool   `json:"retry"`
	} `json:"rejected"`
}

// read tells the outcome from an answer; failed is why its body ended early.
func read(resp *http.Response, body []byte, failed error) Outcome {
	out := Outcome{Status: resp.StatusCode}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		if failed != nil {
			// The verdicts may be in what is missing. The receiver knows the
			// batch by its key.
			out.Verdict, out.Err = VerdictRetry, fmt.Errorf("%s, but the answer is cut off: %w", resp.Status, failed)
			return out
		}
		out.Verdict = VerdictAccepted
		var a answer
		if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '{' {
			if err := json.Unmarshal(body, &a); err != nil {
				out.Err = fmt.Errorf("the answer is not understood: %w", err)
				return out
			}
			out.Duplicate = a.Duplicate
			for _, r := range a.Rejected {
				out.Rejected = append(out.Rejected, Rejected{r.Index, r.Reason, r.Retry})
			}
		}
		return out
	case code == 408, code == 425, code == 429, code >= 500:
		out.Verdict = VerdictRetry
		out.Overload = code == 429 || code == 503
		out.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	case code == 413:
		out.Verdict = VerdictSplit
	case code == 400, code == 422:
		out.Verdict = VerdictBisect
	default:
		out.Verdict = VerdictPause
	}
	out.Err = statusError(resp, body)
	return out
}

// statusError is an answer as an error: its status, and the beginning of what it
// says.
func statusError(resp *http.Response, body []byte) error {
	const most = 200
	said := strings.Join(strings.Fields(string(body[:min(len(body), most)])), " ")
	if where := resp.Header.Get("Location"); where != "" && resp.StatusCode < 400 {
		said = "redirects to " + where + ", which is not followed: use that url"
	}
	if said == "" {
		return errors.New(resp.Status)
	}
	return fmt.Errorf("%s: %s", resp.Status, strings.ToValidUTF8(said, "?"))
}

// retryAfter reads a Retry-After header, seconds or a date (RFC 9110, section
// 10.2.3). What cannot be read asks for nothing.
func retryAfter(v string, now time.Time) time.Duration {
	if v = strings.TrimSpace(v); v == "" {
		return 0
	}
	if s, err := strconv.ParseUint(v, 10, 64); err == nil {
		return time.Duration(min(s, 1<<31)) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return time.Duration(1<<31) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
