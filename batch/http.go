package batch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	neturl "net/url"
	"strconv"
	"strings"
	"time"
)

// HTTPOptions configure NewHTTP. The zero value is ready to use.
type HTTPOptions struct {
	// Client makes the requests. Nil makes a client for batches. It has an idle
	// connection for every lane, and time limits. It uses HTTP/1.1, so that a lost
	// packet delays one batch and not all. It does not follow redirects, which would
	// turn a POST into a GET.
	Client *http.Client
	// Method is the request's method. Empty means POST.
	Method string
	// Header is sent with each batch. Content-Type and Content-Encoding have
	// defaults. Idempotency-Key is not allowed here: every batch has its own.
	Header http.Header
	// Headers returns further headers for one attempt, such as a token that expires.
	// They replace headers of the same name in Header. Each attempt calls it, several
	// concurrently, within Timeout. An error counts as a failed attempt.
	Headers func(ctx context.Context) (http.Header, error)
	// Verdicts replace the verdicts on responses, by status; see NewHTTP for the
	// defaults. VerdictAuto keeps the default.
	Verdicts map[int]Verdict
	// Compression compresses each body, once for all attempts. The zero value sends
	// bodies as they are.
	Compression Compression
	// Timeout limits the time for one attempt, with its response. 0 means 30
	// seconds.
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

// maxAnswer limits how much is read of a response. Verdicts on a million events fit.
const maxAnswer = 64 << 20

// NewHTTP returns a SendFunc that posts batches to url. The body is the events in the
// Format of the processor, with a Content-Length. The header Idempotency-Key is the
// key of the batch, which is the same for each attempt.
//
// A 2xx means that the batch was accepted. A JSON object in the response can say more:
// {"duplicate": true} means that it had been accepted before, and
// {"rejected": [{"index": 3, "reason": "no id", "retry": false}]} that some of its
// events were not accepted. The verdicts on other responses are:
//
//	408, 425, 429, and any 5xx   VerdictRetry, not before Retry-After
//	413                          VerdictSplit
//	400, 422                     VerdictBisect
//	any other                    VerdictPause
//
// The last row is for errors of the address, the method, the form or the credentials,
// not of the events: 401, 403, 404, 405, 409, 410, 415, redirects, 101. Without a
// response the verdict is VerdictRetry. 429, 503 and timeouts count as overload.
// HTTPOptions.Verdicts and Retry.Classify can change verdicts.
func NewHTTP(url string, o HTTPOptions) (SendFunc, error) {
	u, err := neturl.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	h := &sender{
		url: url, method: cmp.Or(o.Method, http.MethodPost), header: o.Header.Clone(), client: o.Client,
		headers: o.Headers, verdicts: maps.Clone(o.Verdicts),
		compression: o.Compression, timeout: cmp.Or(o.Timeout, 30*time.Second),
	}
	for status, v := range h.verdicts {
		if err := need(status >= 100 && status <= 999 && v <= VerdictRefuse, fmt.Sprintf("Verdicts[%d] is %d: it must be a Verdict on a status from 100 to 999", status, v)); err != nil {
			return nil, err
		}
	}
	if h.client == nil {
		h.client = &http.Client{
			Transport:     transport(),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	err = errors.Join(
		need((u.Scheme == "http" || u.Scheme == "https") && u.Host != "", fmt.Sprintf("url %q: must be such as http://host:port/batch", url)),
		need(h.compression <= CompressionZstd, fmt.Sprintf("Compression %d is not known", h.compression)),
		need(h.timeout > 0, "Timeout is negative"),
		need(h.header.Get("Idempotency-Key") == "", "Header must not have Idempotency-Key: every batch has its own"),
	)
	if err != nil {
		return nil, err
	}
	// The method is checked here rather than by the first batch.
	if _, err := http.NewRequest(h.method, url, nil); err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	return h.send, nil
}

// A sender has the settings of NewHTTP.
type sender struct {
	url         string
	method      string
	header      http.Header
	headers     func(context.Context) (http.Header, error)
	verdicts    map[int]Verdict
	client      *http.Client
	compression Compression
	timeout     time.Duration
}

func transport() *http.Transport {
	var one http.Protocols
	one.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   1024, // the largest Lanes.Max; the default of 2 closes the others after each batch
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
			err = fmt.Errorf("no response within %v: %w", h.timeout, err)
			return Outcome{Verdict: VerdictRetry, Err: err, Overload: true}
		}
		return Outcome{Verdict: VerdictRetry, Err: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	out := read(resp, answer, err)
	if v := h.verdicts[out.Status]; v != VerdictAuto {
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

// request makes a request with GetBody. With that and the key, net/http itself sends
// the request again if an idle connection turns out to be closed.
func (h *sender) request(ctx context.Context, b *Batch, more http.Header) (*http.Request, error) {
	body, size, err := b.packedBody(h.compression)
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
	if h.compression != CompressionNone {
		req.Header.Set("Content-Encoding", h.compression.String())
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

// read returns the outcome of a response; failed is the error of reading the body.
func read(resp *http.Response, body []byte, failed error) Outcome {
	out := Outcome{Status: resp.StatusCode}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		if failed != nil {
			// The missing part may have verdicts on events. The receiver recognizes
			// the batch by its key.
			out.Verdict, out.Err = VerdictRetry, fmt.Errorf("%s, but the response is cut off: %w", resp.Status, failed)
			return out
		}
		out.Verdict = VerdictAccepted
		var verdicts struct {
			Duplicate bool
			Rejected  []Refusal
		}
		if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '{' {
			if err := json.Unmarshal(body, &verdicts); err != nil {
				out.Err = fmt.Errorf("the response cannot be decoded: %w", err)
				return out
			}
			out.Duplicate, out.Refused = verdicts.Duplicate, verdicts.Rejected
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

// statusError returns an error with the status and the beginning of the body.
func statusError(resp *http.Response, body []byte) error {
	const most = 200
	reason := strings.Join(strings.Fields(string(body[:min(len(body), most)])), " ")
	if where := resp.Header.Get("Location"); where != "" && resp.StatusCode < 400 {
		reason = "redirects to " + where + ", which is not followed: use that url"
	}
	if reason == "" {
		return errors.New(resp.Status)
	}
	return fmt.Errorf("%s: %s", resp.Status, strings.ToValidUTF8(reason, "?"))
}

// retryAfter reads a Retry-After header, seconds or a date (RFC 9110, section
// 10.2.3). It is 0 if v cannot be read.
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
