package serve_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
)

const staticFlow = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: files, port: in}]}}
- {kind: static, name: files, root: 'ROOT', MORE}
`

// folder serves a folder with a few files.
func folder(t *testing.T, more string) (w *site, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "www")
	write(t, dir, "index.html", "<h1>root</h1>", "app.js", "let a = 1", "docs/index.html", "docs", "docs/a b.txt", "spaced", "empty/x.txt", "x",
		".env", "SECRET", ".git/config", "SECRET", ".well-known/security.txt", "mail", "odd", "<script>", "../secret.txt", "SECRET")
	return serve(t, strings.NewReplacer("ROOT", dir, ", MORE", more).Replace(staticFlow)), dir
}

func TestStatic(t *testing.T) {
	w, dir := folder(t, "")
	write(t, dir, "READ.MD", "read")
	f := func(path string, status int, body string) flowtest.Reply {
		t.Helper()
		got := w.Request("GET", path, "")
		if got.Status != status || got.Body != body {
			t.Errorf("GET %s: got %d %q, want %d %q", path, got.Status, got.Body, status, body)
		}
		return got
	}
	root := f("/", 200, "<h1>root</h1>")
	if root.Header.Get("Content-Type") != "text/html; charset=utf-8" || root.Header.Get("Cache-Control") != "no-cache" ||
		root.Header.Get("Etag") == "" || root.Header.Get("Last-Modified") != "Fri, 01 Mar 2024 12:00:00 GMT" || root.Header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("got the header %v", root.Header)
	}
	f("/index.html", 200, "<h1>root</h1>")
	f("/docs/a%20b.txt", 200, "spaced")
	f("/docs/", 200, "docs")
	f("/.well-known/security.txt", 200, "mail")
	f("/empty/", 404, "Not Found") // not a list
	f("/empty", 404, "Not Found")
	f("/nothing", 404, "Not Found")
	f("/app.js/", 404, "Not Found")
	f("/app.js/x", 404, "Not Found")
	if odd := f("/odd", 200, "<script>"); odd.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("a file without an extension is %q", odd.Header.Get("Content-Type"))
	}
	if read := f("/READ.MD", 200, "read"); read.Header.Get("Content-Type") != "text/markdown; charset=utf-8" {
		t.Errorf("a file with an extension in capitals is %q", read.Header.Get("Content-Type"))
	}
	if to := f("/docs?a=b", 301, "").Header.Get("Location"); to != "./docs/?a=b" {
		t.Errorf("a folder is at %q", to)
	}
	head := w.Request("HEAD", "/app.js", "")
	if head.Status != 200 || head.Body != "" || head.Header.Get("Content-Length") != "9" {
		t.Errorf("HEAD: got %+v", head)
	}
	if got := w.Request("POST", "/app.js", "x"); got.Status != 405 || got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %+v", got)
	}
}

func TestStaticConditions(t *testing.T) {
	w, dir := folder(t, "")
	first := w.Request("GET", "/app.js", "")
	tag, last := first.Header.Get("Etag"), first.Header.Get("Last-Modified")
	f := func(status int, body string, header ...string) flowtest.Reply {
		t.Helper()
		got := w.Request("GET", "/app.js", "", header...)
		if got.Status != status || got.Body != body {
			t.Errorf("%v: got %d %q, want %d %q", header, got.Status, got.Body, status, body)
		}
		return got
	}
	f(304, "", "If-None-Match", tag)
	f(304, "", "If-None-Match", `"other", W/`+tag)
	f(200, "let a = 1", "If-None-Match", `"other"`)
	f(304, "", "If-Modified-Since", last)
	f(200, "let a = 1", "If-Modified-Since", "Fri, 01 Mar 2024 11:59:59 GMT")
	f(200, "let a = 1", "If-None-Match", `"other"`, "If-Modified-Since", last)
	f(412, "", "If-Match", `"other"`)
	f(206, "let", "Range", "bytes=0-2")
	f(206, "= 1", "Range", "bytes=-3")
	f(206, "let", "Range", "bytes=0-2", "If-Range", tag)
	f(200, "let a = 1", "Range", "bytes=0-2", "If-Range", `"other"`)
	if got := f(416, "invalid range: failed to overlap\n", "Range", "bytes=100-"); got.Header.Get("Content-Range") != "bytes */9" {
		t.Errorf("got the header %v", got.Header)
	}
	if got := w.Request("GET", "/app.js", "", "Range", "bytes=0-0,2-2"); got.Status != 206 || !strings.HasPrefix(got.Header.Get("Content-Type"), "multipart/byteranges") {
		t.Errorf("two ranges: got %+v", got)
	}

	// A file that has changed just now may change again without another time.
	write(t, dir, "app.js", "let b = 1")
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, "app.js"), now, now); err != nil {
		t.Fatal(err)
	}
	if got := w.Request("GET", "/app.js", ""); !strings.HasPrefix(got.Header.Get("Etag"), "W/") || got.Header.Get("Etag") == "W/"+tag {
		t.Errorf("a new file has the tag %s", got.Header.Get("Etag"))
	}
}

// What leads out of the folder, or to a hidden file, is not found, however it is written.
func TestStaticEscapes(t *testing.T) {
	w, dir := folder(t, "")
	link := func(name, to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("out.txt", "../secret.txt")
	link("absolute.txt", filepath.Join(filepath.Dir(dir), "secret.txt"))
	link("parent", "..")
	link("loop", "loop")
	link("inside.txt", "docs/a b.txt")
	for _, path := range []string{
		"/../secret.txt", "/docs/../../secret.txt", "/..", "/../", "/./app.js", "//app.js", "/docs//a%20b.txt", "//secret.txt", "/docs/..",
		"/%2e%2e/secret.txt", "/%2e%2e%2fsecret.txt", "/..%2fsecret.txt", "/docs%2f..%2f..%2fsecret.txt", "/.%2e/secret.txt", "/%252e%252e/secret.txt",
		`/..\secret.txt`, `/..%5csecret.txt`, "/docs%5c..%5c..%5csecret.txt", "/app.js%00", "/app.js%00.txt", "/%00", "/..%c0%af", "/..%00/secret.txt",
		"/.env", "/%2eenv", "/.git/config", "/.git/", "/docs/.x", "/out.txt", "/absolute.txt", "/parent/secret.txt", "/parent/", "/loop",
		"/" + strings.Repeat("a", 5000), "/" + strings.Repeat("a/", 3000), "/...", "/C:/x", "/" + dir,
	} {
		got := w.raw("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 404") && !strings.HasPrefix(got, "HTTP/1.1 400") || strings.Contains(got, "SECRET") || strings.Contains(got, dir) {
			t.Errorf("%q: got %.300q", path, got)
		}
	}
	if got := w.Request("GET", "/inside.txt", ""); got.Body != "spaced" {
		t.Errorf("a link inside the folder: got %+v", got)
	}
}

func TestStaticPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("everything may be read by root") // the rest of the test shows nothing then
		return
	}
	w, dir := folder(t, "")
	if err := os.Chmod(filepath.Join(dir, "app.js"), 0); err != nil {
		t.Fatal(err)
	}
	if got := w.Request("GET", "/app.js", ""); got.Status != 403 {
		t.Errorf("got %+v", got)
	}
}

func TestStaticApplication(t *testing.T) {
	w, _ := folder(t, ", strip: /app/, spa: true, cache_control: max-age=60, immutable: ['*.js', 'docs/*']")
	f := func(path string, status int, body, cache string) {
		t.Helper()
		got := w.Request("GET", path, "")
		if got.Status != status || got.Body != body || got.Header.Get("Cache-Control") != cache {
			t.Errorf("GET %s: got %d %q %q, want %d %q %q", path, got.Status, got.Body, got.Header.Get("Cache-Control"), status, body, cache)
		}
	}
	const immutable = "public, max-age=31536000, immutable"
	f("/app/", 200, "<h1>root</h1>", "max-age=60")
	f("/app/orders/7", 200, "<h1>root</h1>", "max-age=60")
	f("/app/orders/", 200, "<h1>root</h1>", "max-age=60")
	f("/app/empty/", 200, "<h1>root</h1>", "max-age=60")
	f("/app/app.js", 200, "let a = 1", immutable)
	f("/app/docs/a%20b.txt", 200, "spaced", immutable)
	f("/app/missing.js", 404, "Not Found", "")
	f("/app/../secret", 404, "Not Found", "")
	f("/application", 404, "Not Found", "")
	f("/", 404, "Not Found", "")
	f("/app", 301, "", "")
}

func TestStaticCompressed(t *testing.T) {
	w, dir := folder(t, "")
	write(t, dir, "app.js.gz", "GZIP", "app.js.br", "BR", "app.js.zst", "ZSTD", "index.html.gz", "INDEX", "old.css", "new", "old.css.gz", "OLD", "a.png", "png", "a.png.gz", "PNG")
	before := longAgo.Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "old.css.gz"), before, before); err != nil {
		t.Fatal(err)
	}
	f := func(path, accept, body, coding string) flowtest.Reply {
		t.Helper()
		got := w.Request("GET", path, "", "Accept-Encoding", accept)
		if got.Body != body || got.Header.Get("Content-Encoding") != coding || got.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("GET %s, %s: got %q %v, want %q %q", path, accept, got.Body, got.Header, body, coding)
		}
		return got
	}
	plain := f("/app.js", "identity", "let a = 1", "")
	brotli := f("/app.js", "gzip, deflate, br, zstd", "BR", "br")
	if brotli.Header.Get("Vary") != "Accept-Encoding" || plain.Header.Get("Vary") != "Accept-Encoding" ||
		brotli.Header.Get("Etag") == plain.Header.Get("Etag") || brotli.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("got %v and %v", plain.Header, brotli.Header)
	}
	f("/app.js", "gzip", "GZIP", "gzip")
	f("/app.js", "zstd;q=0.9, br;q=0.5", "ZSTD", "zstd")
	f("/app.js", "*", "BR", "br")
	f("/app.js", "br;q=0, *;q=0.1", "ZSTD", "zstd")
	f("/app.js", "br;q=2, gzip;q=x", "let a = 1", "")
	f("/", "gzip", "INDEX", "gzip")
	f("/old.css", "gzip", "new", "")
	f("/a.png", "gzip", "png", "")
	f("/docs/a%20b.txt", "gzip", "spaced", "")
	if got := w.Request("GET", "/app.js", "", "Accept-Encoding", "br", "If-None-Match", brotli.Header.Get("Etag")); got.Status != 304 {
		t.Errorf("the compressed file again: got %+v", got)
	}
	if got := w.Request("GET", "/app.js", "", "Accept-Encoding", "br", "If-None-Match", plain.Header.Get("Etag")); got.Status != 200 || got.Header.Get("Content-Length") != "2" {
		t.Errorf("the compressed file in place of another: got %+v", got)
	}
	if got := w.Request("GET", "/app.js", "", "Accept-Encoding", "br", "Range", "bytes=1-1"); got.Status != 206 || got.Body != "R" {
		t.Errorf("a range: got %+v", got)
	}
}

// A failure is one of the node: it goes to the port error.
func TestStaticError(t *testing.T) {
	dir := t.TempDir()
	w := serve(t, `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: files, port: in}]}}
- {kind: static, name: files, root: '`+dir+`', ports: {error: [{name: page, port: in}]}}
- {kind: page, name: page, status: 404, text: "<p>{{ .message }}</p>"}
`)
	if got := w.Request("GET", "/x", ""); got.Status != 404 || got.Body != "<p>Not Found</p>" || got.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("got %+v", got)
	}
}

// A file that was found is closed if the process fails then.
func TestStaticDropped(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.txt", "x")
	w := serve(t, `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: both, port: in}]}}
- {kind: pipe, name: both, ports: {"out[0]": [{name: files, port: in}], "out[1]": [{name: no, port: in}]}}
- {kind: static, name: files, root: '`+dir+`'}
- {kind: throw, name: no, status: 418}
`)
	before := descriptors(t)
	for range 50 {
		if got := w.Request("GET", "/a.txt", ""); got.Status != 418 {
			t.Fatalf("got %+v", got)
		}
	}
	if after := descriptors(t); after > before+10 {
		t.Errorf("%d files are open, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		list, err = os.ReadDir("/dev/fd")
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A folder that is not there is an error of the start, with its path.
func TestStaticMissing(t *testing.T) {
	w, dir := folder(t, "")
	list, err := w.Apply(strings.Replace(strings.ReplaceAll(staticFlow, ", MORE", ""), "ROOT", dir+"/none", 1))
	if err == nil && !list.HasErrors() {
		t.Fatal("a folder that is missing was served")
	}
	if text := list.Error() + " " + errText(err); !strings.Contains(text, "root: the folder "+dir+"/none cannot be opened: no such file or directory") {
		t.Errorf("got %s", text)
	}
	if got := w.Request("GET", "/app.js", ""); got.Status != 200 {
		t.Errorf("the generation before does not serve: got %+v", got)
	}
}

// Files of any size arrive whole, many at a time.
func TestStaticLarge(t *testing.T) {
	w, dir := folder(t, "")
	var clients sync.WaitGroup
	for i, size := range []int{0, 1, 32 << 10, 32<<10 + 1, 256 << 10, 1<<20 + 7} {
		name, text := "large"+strconv.Itoa(i), strings.Repeat("0123456", size/7+1)[:size]
		write(t, dir, name, text)
		for range 20 {
			clients.Go(func() {
				resp, err := w.Client().Get("http://" + w.Address() + "/" + name)
				if err != nil {
					t.Error(err)
					return
				}
				data, err := io.ReadAll(resp.Body)
				if err := errors.Join(err, resp.Body.Close()); err != nil || string(data) != text {
					t.Errorf("%s: got %d bytes, %v; want %d", name, len(data), err, size)
				}
			})
		}
	}
	clients.Wait()
}

// What clients ask for in vain is not in the log, which they could flood.
func TestStaticLog(t *testing.T) {
	w, _ := folder(t, "")
	if got := w.Request("GET", "/none", ""); got.Status != 404 {
		t.Errorf("got %+v", got)
	}
	if got := w.Request("POST", "/app.js", "x"); got.Status != 405 {
		t.Errorf("got %+v", got)
	}
	got := w.Log()
	for _, want := range []string{"status=404", "status=405"} {
		if !regexp.MustCompile(`level=DEBUG msg="request answered with an error" .*` + want).MatchString(got) {
			t.Errorf("log: got %s, want %s at level DEBUG", got, want)
		}
	}
}
