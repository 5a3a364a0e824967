package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
)

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 4 << 20

// A client makes requests to the receiver. Only the worker uses it.
type client struct {
	url    string
	header http.Header
	http   *http.Client
	zip    *gzip.Writer
}

// newClient returns a client for a valid URL. It does not connect.
func newClient(target string, opts *Options) (*client, error) {
	header, err := headerOfEnvironment()
	if err != nil {
		return nil, err
	}
	for key, value := range opts.Headers {
		header.Set(key, value)
	}
	header.Set("Content-Type", "application/x-protobuf")
	header.Set("Content-Encoding", "gzip")
	certs := tlsOfEnvironment()
	if certs != (field.TLS{}) && !strings.HasPrefix(target, "https:") {
		return nil, fmt.Errorf("URL %q: must begin with https:, as the environment has certificates for it", target)
	}
	t, err := httpclient.Settings{ConnectTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second, TLS: certs}.Open()
	var refused *field.RefusedError
	if errors.As(err, &refused) {
		name, _ := variable(variableOf[refused.Field])
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err != nil {
		return nil, err
	}
	c := &client{url: target, header: header, zip: gzip.NewWriter(nil), http: t.Client(httpclient.AllRedirects)}
	c.http.Timeout = opts.Timeout
	return c, nil
}

// variable returns a variable of the environment. That for traces takes precedence over
// that for all signals.
func variable(name string) (key, value string) {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		key = prefix + name
		if value = strings.TrimSpace(os.Getenv(key)); value != "" {
			break
		}
	}
	return key, value
}

// pairs calls f with each item of a variable KEY=VALUE,… with values escaped as in URLs.
// f reports whether it can take it. Errors do not show values, which are often secret.
func pairs(name, list string, f func(key, value string) bool) error {
	for item := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(item) == "" {
			continue
		}
		key, escaped, ok := strings.Cut(item, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(escaped))
		if !ok || key == "" || err != nil || !f(key, value) {
			return fmt.Errorf("%s: must be KEY=VALUE,… with values escaped as in URLs", name)
		}
	}
	return nil
}

func headerOfEnvironment() (http.Header, error) {
	header := make(http.Header)
	name, list := variable("HEADERS")
	err := pairs(name, list, func(key, value string) bool {
		header.Set(key, strings.TrimSpace(value))
		return envelope.ValidHeaderValue(value) && envelope.ValidToken(key)
	})
	return header, err
}

// variableOf are the variables for the fields of TLS.
var variableOf = map[string]string{"tls.ca": "CERTIFICATE", "tls.cert": "CLIENT_CERTIFICATE", "tls.key": "CLIENT_KEY"}

// tlsOfEnvironment returns the certificates that are given.
func tlsOfEnvironment() (t field.TLS) {
	_, t.CA = variable("CERTIFICATE")
	_, cert := variable("CLIENT_CERTIFICATE")
	if _, key := variable("CLIENT_KEY"); cert != "" && key != "" {
		t.Cert, t.Key = cert, key
	}
	return t
}

// A refusal is the answer of a receiver that did not take a batch.
type refusal struct {
	status int
	body   string
	later  time.Duration // to wait before the next attempt, at least
}

func (r *refusal) Error() string {
	text := "status " + strconv.Itoa(r.status) + " " + http.StatusText(r.status)
	if r.body != "" {
		text += ": " + r.body
	}
	return text
}

// A partial says that the receiver took a batch, but not all of it.
type partial struct {
	rejected uint64 // spans; none if it is only a warning
	message  string
}

func (p *partial) Error() string { return fmt.Sprintf("%d spans rejected: %s", p.rejected, p.message) }

// encode makes spans the body of requests. The protocol's request has the same form as
// TracesData. Its generated type is not used, as it links gRPC.
func (c *client) encode(spans []*tracepb.ResourceSpans) ([]byte, error) {
	plain, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return nil, err
	}
	var zipped bytes.Buffer // not kept, as a request that has failed may still be reading it
	c.zip.Reset(&zipped)
	if _, err = c.zip.Write(plain); err == nil {
		err = c.zip.Close()
	}
	return zipped.Bytes(), err
}

// post makes one attempt to send a body. Its error may be a refusal or a partial.
func (c *client) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = c.header.Clone()
	resp, answer, err := httpclient.Fetch(c.http, req, maxAnswer)
	if err != nil && !errors.Is(err, httpclient.ErrTooLarge) {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return &refusal{resp.StatusCode, strings.TrimSpace(clip(string(answer))), httpclient.RetryAfter(resp.Header, time.Now())}
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "application/x-protobuf" {
		return nil
	}
	return taken(answer)
}

// taken reads a message ExportTraceServiceResponse. Its field 1 is a message with the
// number of rejected spans and a text.
func taken(answer []byte) error {
	var p partial
	err := fields(answer, func(number protowire.Number, _ uint64, data []byte) error {
		if number != 1 {
			return nil
		}
		return fields(data, func(number protowire.Number, n uint64, data []byte) error {
			switch number {
			case 1:
				p.rejected = uint64(max(int64(n), 0))
			case 2:
				p.message = clip(string(data))
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if p == (partial{}) {
		return nil
	}
	return &p
}

// fields calls f with each field of a message that is a varint or has bytes.
func fields(message []byte, f func(number protowire.Number, n uint64, data []byte) error) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		var n uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			data, size = protowire.ConsumeBytes(message)
		default:
			size = protowire.ConsumeFieldValue(number, kind, message)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		if err := f(number, n, data); err != nil {
			return err
		}
	}
	return nil
}

// retryable reports whether another attempt to send a batch makes sense, and how long to
// wait before it at least.
func retryable(err error) (later time.Duration, ok bool) {
	var answer *refusal
	if errors.As(err, &answer) {
		switch answer.status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return answer.later, true
		}
		return 0, false
	}
	var f *httpclient.Failure
	return 0, errors.As(err, &f) && (f.Code == httpclient.CodeTimeout || f.Away)
}

// unreachable reports whether a request failed to get a connection.
func unreachable(err error) bool {
	var f *httpclient.Failure
	return errors.As(err, &f) && f.Away
}
