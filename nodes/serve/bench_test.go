package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// These benchmarks send requests over connections that are kept, 8 at a time. The baseline is
// what net/http has for the same.

// sendMany measures requests of a path.
func sendMany(b *testing.B, protocols *http.Protocols, address string) {
	transport := &http.Transport{Protocols: protocols, MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := client.Get(address)
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
				b.Errorf("got %s, %v", resp.Status, err)
			}
			resp.Body.Close()
		}
	})
}

// compare measures ours and a handler, over both protocols.
func compare(b *testing.B, document string, handler http.Handler, paths ...string) {
	ours := "http://" + serve(b, document).Address()
	base := httptest.NewUnstartedServer(handler)
	base.Config.Protocols = new(http.Protocols)
	base.Config.Protocols.SetHTTP1(true)
	base.Config.Protocols.SetUnencryptedHTTP2(true)
	base.Start()
	b.Cleanup(base.Close)
	one, two := new(http.Protocols), new(http.Protocols)
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	for _, path := range paths {
		b.Run("HTTP1"+path+"/ours", func(b *testing.B) { sendMany(b, one, ours+path) })
		b.Run("HTTP1"+path+"/net", func(b *testing.B) { sendMany(b, one, base.URL+path) })
		b.Run("HTTP2"+path+"/ours", func(b *testing.B) { sendMany(b, two, ours+path) })
		b.Run("HTTP2"+path+"/net", func(b *testing.B) { sendMany(b, two, base.URL+path) })
	}
}

func BenchmarkStatic(b *testing.B) {
	dir := b.TempDir()
	var paths []string
	for _, n := range []int{2 << 10, 64 << 10, 1 << 20} {
		name := fmt.Sprintf("%d.bin", n)
		write(b, dir, name, strings.Repeat("x", n))
		paths = append(paths, "/"+name)
	}
	compare(b, strings.NewReplacer("ROOT", dir, ", MORE", "").Replace(staticFlow), http.FileServer(http.Dir(dir)), paths...)
}

func BenchmarkProxy(b *testing.B) {
	target := httptest.NewServer(http.HandlerFunc(ofSize))
	b.Cleanup(target.Close)
	to, err := url.Parse(target.URL)
	if err != nil {
		b.Fatal(err)
	}
	reverse := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	compare(b, proxyOf("", target.URL), reverse, "/length/4", "/length/65536", "/flushed/4", "/flushed/65536")
}
