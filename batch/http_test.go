package batch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/batch"
)

// A request as the server got it.
type request struct {
	method, key, contentType, encoding, body string
	length                                   int64
	header                                   http.Header
}

// server responds to batches by f, and records them.
func server(t *testing.T, f func(call int, w http.ResponseWriter)) (url string, got func() []request) {
	t.Helper()
	var mu sync.Mutex
	var all []request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in io.Reader = r.Body
		var err error
		switch r.Header.Get("Content-Encoding") {
		case "gzip":
			in, err = gzip.NewReader(r.Body)
		case "zstd":
			var z *zstd.Decoder
			z, err = zstd.NewReader(r.Body, zstd.WithDecoderConcurrency(1))
			if err == nil {
				defer z.Close()
				in = z
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		all = append(all, request{
			r.Method, r.Header.Get("Idempotency-Key"), r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"),
			string(body), r.ContentLength, r.Header,
		})
		call := len(all)
		mu.Unlock()
		if f != nil {
			f(call, w)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []request {
		mu.Lock()
		defer mu.Unlock()
		return append([]request(nil), all...)
	}
}

func post(t *testing.T, url string, o batch.HTTPOptions, c batch.Options[int]) *batch.Processor[int] {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	if o.Client == nil {
		o.Client = &http.Client{Transport: tr}
	}
	send, err := batch.NewHTTP(url, o)
	if err != nil {
		t.Fatal(err)
	}
	c.Send = send
	c.Retry.Initial, c.Retry.Max = quick.Initial, quick.Max
	c.Lanes.Order = batch.OrderTotal
	return start(t, c)
}

// TestHTTP checks requests: format, compression, headers. Each is sent twice and is the
// same both times.
func TestHTTP(t *testing.T) {
	for _, c := range []struct {
		format      batch.Format
		compression batch.Compression
		contentType string
		body        string
	}{
		{batch.FormatLines, batch.CompressionNone, "application/x-ndjson", "0\n1\n2\n"},
		{batch.FormatArray, batch.CompressionNone, "application/json", "[0,1,2]"},
		{batch.FormatLines, batch.CompressionGzip, "application/x-ndjson", "0\n1\n2\n"},
		{batch.FormatArray, batch.CompressionZstd, "application/json", "[0,1,2]"},
		{batch.FormatRaw, batch.CompressionZstd, "application/octet-stream", "012"},
	} {
		url, got := server(t, func(call int, w http.ResponseWriter) {
			if call == 1 {
				w.WriteHeader(503)
			}
		})
		p := post(t, url, batch.HTTPOptions{Method: "PUT", Header: http.Header{"X-Team": {"shop"}}, Compression: c.compression},
			batch.Options[int]{Format: c.format, Producer: "me"})
		add(t, p, 0, 3)
		finish(t, p)
		all := got()
		if len(all) != 2 {
			t.Fatalf("%d requests, want 2", len(all))
		}
		for _, r := range all {
			if r.method != "PUT" || r.body != c.body || r.contentType != c.contentType || r.encoding != strings.TrimPrefix(c.compression.String(), "identity") ||
				r.header.Get("X-Team") != "shop" || !strings.HasPrefix(r.key, "me/") || r.key != all[0].key || r.length != all[0].length || r.length <= 0 {
				t.Errorf("%v %v: got %+v", c.format, c.compression, r)
			}
		}
	}
}

// TestAnswers tests the responses of a receiver.
func TestAnswers(t *testing.T) {
	f := func(answer string, want string) {
		t.Helper()
		status, rest, _ := strings.Cut(answer, " ")
		url, got := server(t, func(call int, w http.ResponseWriter) {
			if call > 1 {
				return
			}
			header, body, _ := strings.Cut(rest, "|")
			if name, v, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, v)
			}
			var code int
			fmt.Sscan(status, &code)
			w.WriteHeader(code)
			io.WriteString(w, body)
		})
		var d drops
		p := post(t, url, batch.HTTPOptions{}, batch.Options[int]{OnDrop: d.add})
		add(t, p, 0, 2)
		finish(t, p)
		var bodies []string
		for _, r := range got() {
			bodies = append(bodies, strings.ReplaceAll(strings.TrimSpace(r.body), "\n", ","))
		}
		if got := fmt.Sprint(bodies, d.by); got != want {
			t.Errorf("%s: got %s, want %s", answer, got, want)
		}
	}
	f("200", "[0,1] map[]")
	f("200 |ok", "[0,1] map[]")
	f(`200 |{"accepted":1,"rejected":[{"index":1,"reason":"bad"}]}`, "[0,1] map[refused:[1]]")
	f(`202 |{"rejected":[{"index":0,"retry":true}]}`, "[0,1 0] map[]")
	f(`200 |{"rejected":"many"}`, "[0,1] map[]")
	for _, code := range []string{"408", "425", "429", "500", "502", "503", "504", "507", "520"} {
		f(code, "[0,1 0,1] map[]")
	}
	f("413", "[0,1 0 1] map[]")
	f("400", "[0,1 0 1] map[]")
	f("422", "[0,1 0 1] map[]")
	for _, code := range []string{"401", "403", "404", "405", "409", "410 |gone", "415", "451", "302", "304"} {
		f(code, "[0,1 0,1] map[]")
	}
}

// TestCutAnswer closes the connection within the verdicts: the batch is sent again,
// because they may matter.
func TestCutAnswer(t *testing.T) {
	url, got := server(t, func(call int, w http.ResponseWriter) {
		if call == 1 {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"accepted":2,`)
		}
	})
	p := post(t, url, batch.HTTPOptions{}, batch.Options[int]{})
	add(t, p, 0, 2)
	if s := finishStats(t, p); len(got()) != 2 || s.Delivered != 2 {
		t.Errorf("%d requests, %+v", len(got()), s)
	}
}

// TestRedirect has a receiver that redirects: no event is lost in a POST that becomes a
// GET.
func TestRedirect(t *testing.T) {
	url, got := server(t, func(call int, w http.ResponseWriter) {
		if call == 1 {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(302)
		}
	})
	var log bytes.Buffer
	send, err := batch.NewHTTP(url, batch.HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, batch.Options[int]{Send: send, Retry: quick, Log: logger(&log)})
	add(t, p, 0, 1)
	finish(t, p)
	if all := got(); len(all) != 2 || all[1].method != "POST" {
		t.Errorf("got %+v", all)
	}
	if !strings.Contains(log.String(), "redirects to /elsewhere") {
		t.Errorf("got log %s", log.String())
	}
}

// TestTimeout has a receiver that does not respond the first time.
func TestTimeout(t *testing.T) {
	hang := make(chan struct{})
	url, got := server(t, func(call int, _ http.ResponseWriter) {
		if call == 1 {
			<-hang
		}
	})
	p := post(t, url, batch.HTTPOptions{Timeout: 50 * time.Millisecond}, batch.Options[int]{})
	add(t, p, 0, 1)
	if err := p.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	close(hang)
	if s := finishStats(t, p); len(got()) != 2 || s.Delivered != 1 {
		t.Errorf("%d requests, %+v", len(got()), s)
	}
}

func TestNewHTTP(t *testing.T) {
	for _, c := range []struct {
		url  string
		o    batch.HTTPOptions
		want string
	}{
		{"localhost:80", batch.HTTPOptions{}, "must be such as http://"},
		{"http://[", batch.HTTPOptions{}, "missing ']'"},
		{"http://x", batch.HTTPOptions{Method: "NO WAY"}, "invalid method"},
		{"http://x", batch.HTTPOptions{Compression: 9}, "Compression 9"},
		{"http://x", batch.HTTPOptions{Timeout: -1}, "Timeout"},
		{"http://x", batch.HTTPOptions{Header: http.Header{"Idempotency-Key": {"one"}}}, "every batch has its own"},
	} {
		if _, err := batch.NewHTTP(c.url, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", c.url, err, c.want)
		}
	}
}

// TestSendIgnoresContext shows that Close returns in time though Send does not.
func TestSendIgnoresContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		p := start(t, batch.Options[int]{Trigger: batch.Trigger{Count: 1}, Send: func(context.Context, *batch.Batch) batch.Outcome {
			<-free
			return batch.Outcome{}
		}})
		add(t, p, 0, 1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		report, err := p.Close(ctx)
		if took := time.Since(begin); err == nil || report.Undelivered != 1 || took > 60*time.Millisecond {
			t.Errorf("got %v, %+v after %v", err, report, took)
		}
		balance(t, p)
		close(free)
		synctest.Wait()
		balance(t, p)
	})
}
