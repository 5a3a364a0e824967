package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

// A service is one of S3 with one object, which misbehaves on purpose. The module test/brokers has a
// real one.
type service struct {
	text string
	bare bool // it has no ETags
	mu   struct {
		sync.Mutex
		asked []string // the ranges and the ETags of requests of the object
	}
	answer func(n int, w http.ResponseWriter, from int) // to the request n of the object
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("list-type") != "" {
		contents := ""
		if r.URL.Query().Get("start-after") == "" {
			etag := "<ETag>&quot;e1&quot;</ETag>"
			if s.bare {
				etag = ""
			}
			contents = fmt.Sprintf("<Contents><Key>a.txt</Key>%s<Size>%d</Size><LastModified>2026-01-31T12:00:00.000Z</LastModified></Contents>", etag, len(s.text))
		}
		fmt.Fprintf(w, "<ListBucketResult><Name>shop</Name><IsTruncated>false</IsTruncated>%s</ListBucketResult>", contents)
		return
	}
	from, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), fmt.Sprintf("-%d", len(s.text)-1)))
	s.mu.Lock()
	s.mu.asked = append(s.mu.asked, r.Header.Get("Range")+" "+r.Header.Get("If-Match"))
	n := len(s.mu.asked)
	s.mu.Unlock()
	s.answer(n, w, from)
}

// asked is the ranges and conditions of the requests so far.
func (s *service) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.asked)
}

// send sends the object from somewhere on, and breaks the connection after some bytes.
func (s *service) send(w http.ResponseWriter, from, most int) {
	if !s.bare {
		w.Header().Set("ETag", `"e1"`)
	}
	w.Header().Set("Last-Modified", "Sat, 31 Jan 2026 12:00:00 GMT")
	w.Header().Set("Content-Length", strconv.Itoa(len(s.text)-from))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	fmt.Fprint(w, s.text[from:min(from+most, len(s.text))])
	if from+most < len(s.text) {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>on purpose</Message></Error>", code)
}

func TestSourceOfBadServices(t *testing.T) {
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	text := lines.String()
	for name, c := range map[string]struct {
		answer func(s *service, n int, w http.ResponseWriter, from int)
		want   string // the file that is written
		log    string
	}{
		"cut again and again": {
			answer: func(s *service, _ int, w http.ResponseWriter, from int) { s.send(w, from, 4000) },
			want:   text,
		},
		"busy": {
			answer: func(s *service, n int, w http.ResponseWriter, from int) {
				if n < 3 {
					refuse(w, http.StatusServiceUnavailable, "SlowDown")
					return
				}
				s.send(w, from, len(text))
			},
			want: text, log: "on purpose",
		},
		"gone": {
			answer: func(_ *service, _ int, w http.ResponseWriter, _ int) { refuse(w, http.StatusNotFound, "NoSuchKey") },
			log:    "an object is not there any more as it was listed",
		},
		"replaced in the middle": {
			answer: func(s *service, n int, w http.ResponseWriter, from int) {
				if n == 1 {
					s.send(w, from, strings.Index(text, "line 500"))
					return
				}
				refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			},
			want: text[:strings.Index(text, "line 500")], log: "an object is not there any more as it was listed",
		},
		"archived": {
			answer: func(_ *service, _ int, w http.ResponseWriter, _ int) {
				refuse(w, http.StatusForbidden, "InvalidObjectState")
			},
			want: "undecodable: s3://shop/a.txt:1: s3://shop/a.txt: on purpose [InvalidObjectState]\n", log: "an object cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{text: text}
			s.answer = func(n int, w http.ResponseWriter, from int) { c.answer(s, n, w, from) }
			server := httptest.NewServer(s)
			defer server.Close()
			out := filepath.Join(t.TempDir(), "out")
			f := flowtest.New(t, std.Defs("")...)
			f.Options.Clock = node.SystemClock{}
			f.Load(fmt.Sprintf(`
- {kind: s3_source, name: read, bucket: shop, endpoint: %q, ends: true, order: total, ports: {out: [{name: out}], error: [{name: bad, port: in}]}}
- {kind: snippet, name: bad, language: cel, code: self.message, ports: {out: [{name: out}]}}
- {kind: file_sink, name: out, path: %q, encode: text}
`, server.URL, out))
			deadline := time.After(time.Minute)
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				got, err := os.ReadFile(out)
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				if string(got) == c.want && strings.Contains(f.Log(), c.log) {
					break
				}
				select {
				case <-tick.C:
				case <-deadline:
					t.Fatalf("got %d bytes, want %d: %.200s; the log: %s", len(got), len(c.want), got, f.Log())
				}
			}
			f.Close()
			for _, asked := range s.asked() {
				if !strings.HasSuffix(asked, `"e1"`) {
					t.Errorf("a request was for any ETag: %q", asked)
				}
			}
		})
	}
}

// TestSourceWithoutETags reads an object of a service without ETags once, over two starts.
func TestSourceWithoutETags(t *testing.T) {
	s := &service{text: "one\ntwo\n", bare: true}
	s.answer = func(_ int, w http.ResponseWriter, from int) { s.send(w, from, len(s.text)) }
	server := httptest.NewServer(s)
	defer server.Close()
	doc := fmt.Sprintf("- {kind: s3_source, name: read, bucket: shop, endpoint: %q, ends: true, checkpoint: {file: %q}, ports: {out: [{name: got}]}}", server.URL, filepath.Join(t.TempDir(), "positions"))
	for i := range 2 {
		f := flowtest.New(t, std.Defs("")...)
		f.Options.Clock = node.SystemClock{}
		f.Load(doc)
		<-f.Engine().Triggers()[0].Finished
		if got := f.Probe("got").Payloads(); len(got) != 2*(1-i) {
			t.Errorf("start %d: got %v", i+1, got)
		}
		f.Close()
	}
	for _, asked := range s.asked() {
		if strings.TrimSpace(asked) != "" {
			t.Errorf("a request has a condition: %q", asked)
		}
	}
}
