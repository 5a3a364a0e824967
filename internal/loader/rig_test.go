package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// A rig is a loader behind a server.
type rig struct {
	t      *testing.T
	loader *Loader
	server *httptest.Server
}

func openRig(t *testing.T, opts Options) *rig {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, loader: l, server: httptest.NewUnstartedServer(nil)}
	r.server.Config = l.Server()
	r.server.Start()
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	if r.loader == nil {
		return
	}
	r.server.Close()
	if err := r.loader.Close(); err != nil {
		r.t.Error(err)
	}
	r.loader = nil
}

// reopen closes the loader as SIGTERM does, and opens the folder again.
func (r *rig) reopen(opts Options) *rig {
	r.t.Helper()
	opts.Dir, opts.fs = r.loader.Dir(), r.loader.opts.fs
	r.close()
	return openRig(r.t, opts)
}

type reply struct {
	status   int
	header   http.Header
	body     string
	Accepted int
	Dup      bool `json:"duplicate"`
	Rejected []struct {
		Index  int
		Reason string
		Retry  bool
	}
	Error string
}

func post(client *http.Client, url string, body io.Reader, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url+"/batch", body)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	got := reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	if err := json.Unmarshal(text, &got); err != nil {
		return got, fmt.Errorf("%d %s: %w", got.status, text, err)
	}
	return got, nil
}

func (r *rig) post(body string, headers ...string) reply {
	r.t.Helper()
	got, err := post(r.server.Client(), r.server.URL, strings.NewReader(body), headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// want fails unless a status is as it should be.
func (r *rig) want(got reply, status int) reply {
	r.t.Helper()
	if got.status != status {
		r.t.Fatalf("got %d %s, want %d", got.status, got.body, status)
	}
	return got
}

// await polls the counts until they are as they should be: a handler ends after
// its client has the answer.
func (r *rig) await(what string, ok func(Stats) bool) {
	r.t.Helper()
	deadline := time.After(20 * time.Second)
	for tick := time.Tick(time.Millisecond); !ok(r.loader.Stats()); {
		select {
		case <-tick:
		case <-deadline:
			r.t.Fatalf("got %+v, want %s", r.loader.Stats(), what)
		}
	}
}

// events are the lines of all files of events, in order.
func (r *rig) events() []string {
	r.t.Helper()
	lines, err := readEvents(r.loader.opts.fs, r.loader.Dir())
	if err != nil {
		r.t.Fatal(err)
	}
	return lines
}

func (r *rig) wantEvents(want ...string) {
	r.t.Helper()
	if got := r.events(); !slices.Equal(got, want) {
		r.t.Fatalf("got events %q, want %q", got, want)
	}
}

func readEvents(fsys vfs.FS, dir string) ([]string, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, n := range series().Numbers(names) {
		path := filepath.Join(dir, series().Name(n))
		data, err := vfs.ReadFile(fsys, path)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			text, whole := strings.CutSuffix(line, "\n")
			if !whole {
				return nil, fmt.Errorf("%s: the last line has no end: %q", path, line)
			}
			lines = append(lines, text)
		}
	}
	return lines, nil
}

func gzipOf(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// zstdOf compresses; streamed frames do not have their size.
func zstdOf(t testing.TB, text string, streamed bool) string {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	if !streamed {
		out := string(w.EncodeAll([]byte(text), nil))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for rest := text; len(rest) > 0; {
		n := min(len(rest), 1<<20)
		if _, err := io.WriteString(w, rest[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// array is a batch of n events, each with its number from first on.
func array(first, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString([]string{"[", ","}[min(i, 1)] + fmt.Sprintf(`{"id":%d}`, first+i))
	}
	return b.String() + "]"
}

// ask sends a batch to a handler, without a server.
func ask(l *Loader, body string, headers ...string) reply {
	req := httptest.NewRequest(http.MethodPost, "/batch", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, req)
	got := reply{status: w.Code, header: w.Header(), body: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		got.Error = err.Error()
	}
	return got
}
