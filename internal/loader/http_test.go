package loader

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// TestTake takes arrays and lines, however they are compressed.
func TestTake(t *testing.T) {
	const events = `[{"a":1},
		{"b": "x\n\" ]"} , [1,
		2],3 ]`
	const lines = "{\"a\":1}\n\r\n  {\"b\": \"x\\n\\\" ]\"}\t\r\n[1,2]\n3"
	want := []string{`{"a":1}`, `{"b": "x\n\" ]"}`, `[1,2]`, `3`}
	for _, c := range []struct{ name, body, media, coding string }{
		{"array", events, "application/json", ""},
		{"array with a charset", events, "application/json; charset=UTF-8", "identity"},
		{"lines", lines, "application/x-ndjson", ""},
		{"gzip", gzipOf(t, events), "application/json", "gzip"},
		{"two gzip members", gzipOf(t, lines[:9]) + gzipOf(t, lines[9:]), "application/x-ndjson", "gzip"},
		{"zstd", zstdOf(t, events, false), "application/json", "zstd"},
		{"zstd of unknown size", zstdOf(t, lines, true), "application/x-ndjson", "ZSTD"},
		{"zstd with a large window", zstdOf(t, events, true), "application/json", "zstd"},
		{"two zstd frames", zstdOf(t, lines[:9], false) + zstdOf(t, lines[9:], true), "application/x-ndjson", "zstd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := openRig(t, Options{MaxBody: 1 << 10})
			headers := []string{"Content-Type", c.media}
			if c.coding != "" {
				headers = append(headers, "Content-Encoding", c.coding)
			}
			got := r.want(r.post(c.body, headers...), 200)
			if got.body != `{"accepted":4,"duplicate":false}`+"\n" {
				t.Errorf("got %s", got.body)
			}
			r.wantEvents(want...)
			// The same of unknown length.
			sent, err := post(r.server.Client(), r.server.URL, io.MultiReader(strings.NewReader(c.body)), headers...)
			if err != nil || sent.Accepted != 4 {
				t.Errorf("got %+v, error %v", sent, err)
			}
			r.wantEvents(append(want, want...)...)
		})
	}
}

// TestRefuse refuses what cannot be taken, with a sentence that helps, and
// nothing of it is kept.
func TestRefuse(t *testing.T) {
	bomb := strings.Repeat(" ", 1<<20)
	for _, c := range []struct {
		name, body string
		status     int
		text       string
		headers    []string
	}{
		{"empty", "", 400, "the body is empty", nil},
		{"object", `{"a":1}`, 400, `byte 0: want the "[" of an array of events, got "{"`, nil},
		{"open", `[{"a":1},`, 400, `byte 9: want a value, got the end`, nil},
		{"open string", `[{"a":1},{"a`, 400, `byte 12: want the "\"" that ends a string, got the end`, nil},
		{"no comma", `[{"a":1} {"a":2}]`, 400, `byte 9: want "," or "]" after an event, got "{"`, nil},
		{"trailing comma", `[1,]`, 400, `byte 3: want a value, got "]"`, nil},
		{"more after it", `[1] 2`, 400, `byte 4: want nothing after the array, got "2"`, nil},
		{"deep", strings.Repeat("[", 10002), 400, `byte 10001: nested deeper than 10000`, nil},
		{"too many bad lines", strings.Repeat("x\n", 1001), 400, "more than 1000 of its events cannot be taken", []string{"Content-Type", "application/x-ndjson"}},
		{"no gzip", "[1]", 400, "the body is not whole gzip", []string{"Content-Encoding", "gzip"}},
		{"half gzip", gzipOf(t, "[1,2,3]")[:20], 400, "the body is not whole gzip", []string{"Content-Encoding", "gzip"}},
		{"no zstd", "[1]", 400, "the body is not whole zstd", []string{"Content-Encoding", "zstd"}},
		{"half zstd", zstdOf(t, array(0, 100), false)[:30], 400, "the body is not whole zstd", []string{"Content-Encoding", "zstd"}},
		{"large", "[" + bomb + "]", 413, "the body has 1048578 bytes, more than the limit of 65536", nil},
		{"gzip bomb", gzipOf(t, bomb), 413, "decompressed, has over 65536 bytes", []string{"Content-Encoding", "gzip"}},
		{"zstd bomb", zstdOf(t, bomb, false), 413, "decompressed, has over 65536 bytes", []string{"Content-Encoding", "zstd"}},
		{"zstd bomb of unknown size", zstdOf(t, bomb, true), 413, "decompressed, has over 65536 bytes", []string{"Content-Encoding", "zstd"}},
		{"type", "[1]", 415, `want the Content-Type application/json`, []string{"Content-Type", "text/plain"}},
		{"charset", "[1]", 415, `want the charset utf-8, got "latin1"`, []string{"Content-Type", "application/json; charset=latin1"}},
		{"coding", "[1]", 415, `want the Content-Encoding gzip, zstd or identity, got "br"`, []string{"Content-Encoding", "br"}},
		{"two codings", "[1]", 415, `got "gzip, zstd"`, []string{"Content-Encoding", "gzip, zstd"}},
		{"key", "[1]", 400, "the Idempotency-Key has 256 bytes, more than 255", []string{"Idempotency-Key", strings.Repeat("k", 256)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := openRig(t, Options{MaxBody: 64 << 10})
			got := r.want(r.post(c.body, c.headers...), c.status)
			if !strings.Contains(got.Error, c.text) {
				t.Errorf("got %q, want %q", got.Error, c.text)
			}
			r.wantEvents()
			r.await("nothing in flight", func(s Stats) bool { return s.Inflight == 0 && s.InflightBytes == 0 })
			if s := r.loader.Stats(); s.Refused != 1 || s.Batches != 0 {
				t.Errorf("got %+v", s)
			}
			// The same of unknown length.
			sent, err := post(r.server.Client(), r.server.URL, io.MultiReader(strings.NewReader(c.body)), c.headers...)
			if err != nil || sent.status != c.status {
				t.Errorf("got %+v, error %v", sent, err)
			}
		})
	}
}

// TestMethods refuses other methods and paths.
func TestMethods(t *testing.T) {
	r := openRig(t, Options{})
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/batch", 405, "POST"},
		{"PUT", "/batch", 405, "POST"},
		{"POST", "/health", 405, "GET, HEAD"},
		{"POST", "/metrics", 405, "GET, HEAD"},
		{"GET", "/", 404, ""},
		{"GET", "/health", 200, ""},
		{"HEAD", "/health", 200, ""},
		{"GET", "/metrics", 200, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, r.server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status || resp.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: got %d, Allow %q, want %d, %q", c.method, c.path, resp.StatusCode, resp.Header.Get("Allow"), c.status, c.allow)
		}
	}
}

// TestVerdicts answers for each event that is not taken; others are.
func TestVerdicts(t *testing.T) {
	r := openRig(t, Options{MaxEvent: 20})
	got := r.want(r.post("1\n{\"a\":}\n{\"a\":\"0123456789abcdef\"}\n\n2 3\n\"\xff\"\n4", "Content-Type", "application/x-ndjson", "Idempotency-Key", "k"), 200)
	const want = `{"accepted":2,"duplicate":false,"rejected":[` +
		`{"index":1,"reason":"byte 5: want a value, got \"}\"","retry":false},` +
		`{"index":2,"reason":"24 bytes, more than 20","retry":false},` +
		`{"index":3,"reason":"byte 2: want the end of the line, got \"3\"","retry":false},` +
		`{"index":4,"reason":"not UTF-8","retry":false}]}` + "\n"
	if got.body != want {
		t.Errorf("got  %swant %s", got.body, want)
	}
	r.wantEvents("1", "4")
	// The answer to the key is the same, whatever is sent with it, and also by a
	// loader that was restarted.
	again := strings.Replace(want, "false", "true", 1)
	if got := r.want(r.post("[7]", "Idempotency-Key", "k"), 200); got.body != again {
		t.Errorf("got  %swant %s", got.body, again)
	}
	if s := r.loader.Stats(); s.Accepted != 2 || s.Rejected != 4 || s.Duplicates != 1 || s.Batches != 1 || s.Bytes != 4 {
		t.Errorf("got %+v", s)
	}
	r = r.reopen(Options{})
	if got := r.want(r.post("[7]", "Idempotency-Key", "k"), 200); got.body != again {
		t.Errorf("got  %swant %s", got.body, again)
	}
	array := r.want(r.post(`[ "`+strings.Repeat("x", 1<<20)+`", "\u00ff", "`+"\xff"+`" ]`), 200)
	if array.Accepted != 1 || len(array.Rejected) != 2 || array.Rejected[0].Index != 0 || array.Rejected[1].Index != 2 {
		t.Errorf("got %+v", array)
	}
	r.wantEvents("1", "4", `"\u00ff"`)
}

// TestEmpty takes a batch without events, and remembers its key.
func TestEmpty(t *testing.T) {
	r := openRig(t, Options{})
	if got := r.want(r.post("[]"), 200); got.Accepted != 0 {
		t.Errorf("got %+v", got)
	}
	r.want(r.post(" [ ] ", "Idempotency-Key", "e"), 200)
	r.want(r.post("", "Content-Type", "application/x-ndjson"), 200)
	r.want(r.post("x", "Content-Type", "application/x-ndjson", "Idempotency-Key", "x"), 200)
	r = r.reopen(Options{})
	if got := r.want(r.post("[1]", "Idempotency-Key", "e"), 200); !got.Dup || got.Accepted != 0 {
		t.Errorf("got %+v", got)
	}
	if got := r.want(r.post("[1]", "Idempotency-Key", "x"), 200); !got.Dup || got.Accepted != 0 || len(got.Rejected) != 1 {
		t.Errorf("got %+v", got)
	}
	r.wantEvents()
}

// TestConcurrentKeys sends each of 20 keys eight times concurrently: one of the eight
// is taken, the others are answered as duplicates.
func TestConcurrentKeys(t *testing.T) {
	r := openRig(t, Options{Rotate: 256, MaxInflight: 200})
	var wg sync.WaitGroup
	var mu sync.Mutex
	first := make(map[int]int)
	for i := range 20 {
		for range 8 {
			wg.Go(func() {
				got, err := post(r.server.Client(), r.server.URL, strings.NewReader(array(10*i, 3)), "Idempotency-Key", fmt.Sprint("k", i))
				if err != nil || got.status != 200 || got.Accepted != 3 {
					t.Errorf("got %+v, error %v", got, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if !got.Dup {
					first[i]++
				}
			})
		}
	}
	wg.Wait()
	for i := range 20 {
		if first[i] != 1 {
			t.Errorf("key %d: got %d answers of a first batch, want 1", i, first[i])
		}
	}
	if n := len(r.events()); n != 60 {
		t.Errorf("got %d events, want 60", n)
	}
	if s := r.loader.Stats(); s.Batches != 20 || s.Duplicates != 140 || s.Files < 2 {
		t.Errorf("got %+v", s)
	}
}

// TestWaitsForFirst lets the second batch of a key wait while the first is being
// written, and refuses a third batch: the limit is two.
func TestWaitsForFirst(t *testing.T) {
	disk := vfstest.New()
	r := openRig(t, Options{Dir: "/loader", fs: disk, MaxInflight: 2})
	synced, goOn := make(chan struct{}), make(chan struct{})
	disk.SetFail(func(op vfstest.Op, name string) error {
		if op == vfstest.Sync && strings.Contains(name, "events-") {
			close(synced)
			<-goOn
		}
		return nil
	})
	answers := make(chan reply, 2)
	var wg sync.WaitGroup
	send := func() {
		got, err := post(r.server.Client(), r.server.URL, strings.NewReader("[1]"), "Idempotency-Key", "k")
		if err != nil {
			t.Error(err)
		}
		answers <- got
	}
	wg.Go(send)
	<-synced
	wg.Go(send)
	r.await("two in flight", func(s Stats) bool { return s.Inflight == 2 })
	select {
	case got := <-answers:
		t.Fatalf("got %+v before anything was durable", got)
	default:
	}
	got := r.want(r.post("[2]"), 429)
	if got.header.Get("Retry-After") != "1" || got.Error != "2 batches are in flight: try again later" {
		t.Errorf("got %+v", got)
	}
	close(goOn)
	wg.Wait()
	one, two := <-answers, <-answers
	if one.Dup == two.Dup || one.Accepted != 1 || two.Accepted != 1 {
		t.Errorf("got %+v and %+v", one, two)
	}
	r.wantEvents("1")
}

// TestMemory refuses a batch when the batches in flight take too much memory, and takes
// one that alone takes more. What a client has announced and not sent takes none.
func TestMemory(t *testing.T) {
	r := openRig(t, Options{MaxInflightBytes: 200_000})
	large := "[\"" + strings.Repeat("x", 250_000) + "\"]"
	r.want(r.post(large), 200)
	r.await("nothing in flight", func(s Stats) bool { return s.Inflight == 0 && s.InflightBytes == 0 })
	head := "POST /batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 120000\r\n\r\n["
	silent := r.dial(head)
	defer silent.Close()
	r.await("a client", func(s Stats) bool { return s.InflightBytes > 0 })
	if got := r.loader.Stats().InflightBytes; got > scarceBytes {
		t.Errorf("got %d bytes of memory for a body of which one byte has come, want %d at most", got, scarceBytes)
	}
	sending := r.dial(head + strings.Repeat("1,", 55_000))
	defer sending.Close()
	r.await("memory taken", func(s Stats) bool { return s.InflightBytes >= 110_000 })
	got := r.want(r.post(large), 429)
	if got.header.Get("Retry-After") != "1" || !strings.Contains(got.Error, "of memory: try again later") {
		t.Errorf("got %+v", got)
	}
	r.want(r.post("[1]"), 200) // there is room for small ones
}

// TestSlowBodies has clients that announce the largest body and send one byte of
// it, more of them than MaxInflight, and than memory would hold. Other
// clients are still served.
func TestSlowBodies(t *testing.T) {
	const clients = 200
	r := openRig(t, Options{MaxInflight: 8, MaxInflightBytes: 16 << 20, BodyTimeout: 10 * time.Minute})
	for _, header := range []string{"", "Content-Encoding: gzip\r\n", "Content-Encoding: zstd\r\n"} {
		for range clients / 3 {
			conn := r.dial("POST /batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + header +
				"Content-Length: 8388608\r\n\r\n[")
			defer conn.Close()
		}
	}
	r.await("all slow clients", func(Stats) bool { return r.clients() == clients/3*3 })
	large := `["` + strings.Repeat("x", 1_000_000) + `"]`
	for i := range 20 {
		r.want(r.post(`[{"n":1}]`), 200)
		r.want(r.post(large, "Idempotency-Key", fmt.Sprint("large ", i)), 200)
		r.want(r.post(zstdOf(t, large, true), "Content-Encoding", "zstd"), 200)
	}
	if s := r.loader.Stats(); s.Refused > 0 {
		t.Errorf("got %+v, want nothing refused", s)
	}
	r.server.CloseClientConnections()
}

// clients is the number of requests that are being taken.
func (r *rig) clients() int {
	r.loader.mu.Lock()
	defer r.loader.mu.Unlock()
	return r.loader.mu.clients
}

// TestRefusedAndSilent lets go of a client that has been refused by what it has
// announced, and sends nothing more, long before BodyTimeout.
func TestRefusedAndSilent(t *testing.T) {
	r := openRig(t, Options{BodyTimeout: time.Hour})
	conn := r.dial("POST /batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n[")
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 413 ") {
		t.Errorf("got %q, error %v", text, err)
	}
}

func (r *rig) dial(text string) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// TestSlowClient gives up on a body that does not come.
func TestSlowClient(t *testing.T) {
	r := openRig(t, Options{BodyTimeout: 20 * time.Millisecond})
	conn := r.dial("POST /batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n[")
	defer conn.Close()
	text, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 408 ") || !strings.Contains(string(text), "the body did not arrive in time") {
		t.Errorf("got %q, error %v", text, err)
	}
	r.await("nothing in flight", func(s Stats) bool { return s.Inflight == 0 && s.InflightBytes == 0 })
}

// TestCutOff takes nothing of a body that ends early.
func TestCutOff(t *testing.T) {
	r := openRig(t, Options{})
	conn := r.dial("POST /batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100\r\n\r\n1\n2\n")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
		t.Errorf("got %q, error %v", text, err)
	}
	r.wantEvents()
}

// TestClosed refuses batches after Close, and closes twice.
func TestClosed(t *testing.T) {
	r := openRig(t, Options{})
	if err := r.loader.Close(); err != nil {
		t.Fatal(err)
	}
	got := r.want(r.post("[1]"), 503)
	if got.Error != "the loader is closed" || got.header.Get("Retry-After") == "" {
		t.Errorf("got %+v", got)
	}
}

// TestMetrics shows what is counted.
func TestMetrics(t *testing.T) {
	r := openRig(t, Options{Version: "1.2.3"})
	r.want(r.post("1\nx\n", "Content-Type", "application/x-ndjson", "Idempotency-Key", "k"), 200)
	r.want(r.post("1\nx\n", "Content-Type", "application/x-ndjson", "Idempotency-Key", "k"), 200)
	r.want(r.post("{}"), 400)
	resp, err := r.server.Client().Get(r.server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`uniflow_loader_batches_total 1`,
		`uniflow_loader_duplicates_total 1`,
		`uniflow_loader_refused_total 1`,
		`uniflow_loader_events_accepted_total 1`,
		`uniflow_loader_events_rejected_total{reason="json"} 1`,
		`uniflow_loader_events_rejected_total{reason="size"} 0`,
		`uniflow_loader_written_bytes_total 2`,
		`uniflow_loader_received_bytes_total 6`,
		`uniflow_loader_fsync_seconds_count 3`,
		`uniflow_loader_request_seconds_count{status="200"} 2`,
		`uniflow_loader_request_seconds_count{status="400"} 1`,
		`uniflow_loader_in_flight_batches 0`,
		`uniflow_loader_dedupe_keys 1`,
		`uniflow_loader_files 1`,
		`uniflow_loader_failing 0`,
	} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("got no %q", want)
		}
	}
	if !strings.Contains(string(text), `version="1.2.3"`) {
		t.Error("got no version")
	}
}
