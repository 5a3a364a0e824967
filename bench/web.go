package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// This file has N6 and N7: files of a folder, and the answers of another server.

// webForms are the baselines by the path that they serve at: see serve. The ones of N6 serve
// root, the ones of N7 send to target.
func webForms(root, target string) (map[string]http.Handler, error) {
	forms := make(map[string]http.Handler)
	if root != "" {
		within, err := os.OpenRoot(root)
		if err != nil {
			return nil, err
		}
		forms["http.Dir"] = http.FileServer(http.Dir(root))
		forms["os.Root"] = http.FileServerFS(within.FS())
	}
	if target != "" {
		to, err := url.Parse(target)
		if err != nil {
			return nil, err
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1024 // the default opens a connection for most requests
		rewrite := func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		}
		forms["connections"] = &httputil.ReverseProxy{Rewrite: rewrite, Transport: transport}
		forms["connections and buffers"] = &httputil.ReverseProxy{Rewrite: rewrite, Transport: transport, BufferPool: &pooledBuffers{}}
		forms["as it comes"] = httputil.NewSingleHostReverseProxy(to)
	}
	return forms, nil
}

// formPath is where a form is served.
func formPath(form string) string { return "/" + strings.NewReplacer(" ", "-").Replace(form) }

type pooledBuffers struct{ pool sync.Pool }

func (b *pooledBuffers) Get() []byte {
	if p, ok := b.pool.Get().(*[32 << 10]byte); ok {
		return p[:]
	}
	return make([]byte, 32<<10)
}

func (b *pooledBuffers) Put(p []byte) { b.pool.Put((*[32 << 10]byte)(p)) }

// blob is the answer and the body of the large requests of N7.
var blob = bytes.Repeat([]byte("0123456789abcdef"), 4<<10)

// A webShape is a request that all forms get.
type webShape struct {
	name string
	load load.Options
	only string // the form that can answer it, besides ours; empty for all
}

func shape(name, path string, more func(*load.Options)) webShape {
	s := webShape{name: name, load: load.Options{Path: path, Conns: 64, KeepAlive: true}}
	if more != nil {
		more(&s.load)
	}
	return s
}

// changed is when the files were changed.
var changed = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

// measureStatic is N6.
func measureStatic(ctx context.Context, l *lab, line Line) ([]Row, error) {
	root := l.File("www")
	random := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{1}).Read(random) //nolint:errcheck // it always succeeds
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(bytes.Repeat([]byte("let a = 1;\n"), 20<<10))
	if err := errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{
		"ping": []byte("pong"), "small.html": random[:2<<10], "assets/js/app.js": random[:8<<10],
		"large.bin": random, "page.js": bytes.Repeat([]byte("let a = 1;\n"), 20<<10), "page.js.gz": packed.Bytes(),
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644), os.Chtimes(path, changed, changed)); err != nil {
			return nil, err
		}
	}
	document := func(port string) string {
		return "- {kind: listener, name: listener, host: 127.0.0.1, port: " + port + ", ports: {out: [{name: files, port: in}]}}\n" +
			"- {kind: static, name: files, root: '" + root + "'}\n"
	}
	packedOnly := shape("compressed file of 225 KB, next to it", "/page.js", func(o *load.Options) {
		o.Header = "Accept-Encoding: gzip\r\n"
		o.Accept = func(status int, body []byte) bool { return status == 200 && len(body) == packed.Len() }
	})
	packedOnly.only = "http.Dir"
	return l.web(ctx, line, document, []string{"-root", root}, []string{"http.Dir", "os.Root"}, []webShape{
		shape("2 KiB", "/small.html", nil),
		shape("8 KiB, two folders down", "/assets/js/app.js", nil),
		shape("1 MiB", "/large.bin", func(o *load.Options) { o.Conns = 16 }),
		shape("not changed (304)", "/small.html", func(o *load.Options) {
			o.Header = "If-Modified-Since: " + changed.Format(http.TimeFormat) + "\r\n"
			o.Accept = func(status int, _ []byte) bool { return status == http.StatusNotModified }
		}),
		packedOnly,
	})
}

// measureProxy is N7.
func measureProxy(ctx context.Context, l *lab, line Line) (rows []Row, err error) {
	target, err := l.baseline(ctx)
	if err != nil {
		return nil, err
	}
	defer stopInto(&err, target)
	document := func(port string) string {
		return "- {kind: listener, name: listener, host: 127.0.0.1, port: " + port + ", ports: {out: [{name: there, port: in}]}}\n" +
			"- {kind: proxy, name: there, target: 'http://" + target.Addr + "'}\n"
	}
	return l.web(ctx, line, document, []string{"-target", "http://" + target.Addr}, []string{"as it comes", "connections", "connections and buffers"}, []webShape{
		shape("GET of 4 bytes", "/ping", nil),
		shape("answer of 64 KiB", "/blob", nil),
		shape("POST of 64 KiB", "/swallow", func(o *load.Options) { o.JSON, o.ContentType = string(blob), "application/octet-stream" }),
	})
}

// web compares ours with the forms of a baseline server, shape by shape. Of each shape the
// fastest form counts.
func (l *lab) web(ctx context.Context, line Line, document func(port string) string, flags, forms []string, shapes []webShape) (rows []Row, err error) {
	ours, err := l.ours(ctx, line.ID, document)
	if err != nil {
		return nil, err
	}
	defer stopInto(&err, ours)
	prefixes, byHand := map[string]string{ours.Name: ""}, []*server.Server(nil)
	for _, form := range forms {
		addr, err := server.FreeAddr()
		if err != nil {
			return nil, err
		}
		one, err := l.serve(ctx, form, addr, l.Self, append([]string{"-serve", addr}, flags...)...)
		if err != nil {
			return nil, err
		}
		defer stopInto(&err, one)
		prefixes[form], byHand = formPath(form), append(byHand, one)
	}
	for _, s := range shapes {
		servers := []*server.Server{ours}
		for _, one := range byHand {
			if s.only == "" || s.only == one.Name {
				servers = append(servers, one)
			}
		}
		got, err := l.webShape(ctx, line, s, servers, prefixes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

func (l *lab) webShape(ctx context.Context, line Line, s webShape, servers []*server.Server, prefixes map[string]string) ([]Row, error) {
	span := 500 * time.Millisecond // the first requests do not count
	gen := func(ctx context.Context, to *server.Server) (float64, int64, time.Duration, error) {
		o := s.load
		o.Addr, o.Path, o.Duration = to.Addr, prefixes[to.Name]+o.Path, span
		if s.only != "" && prefixes[to.Name] != "" { // it does not know of the other file
			o.Path += ".gz"
		}
		return loaded(ctx, o)
	}
	for _, to := range servers {
		if _, _, _, err := gen(ctx, to); err != nil {
			return nil, fmt.Errorf("%s: %w", to.Name, err)
		}
	}
	span = l.span() / 2
	sides, err := l.compare(ctx, s.name, gen, servers...)
	if err != nil {
		return nil, err
	}
	rows := againstFastest(line, s.name, servers, sides)
	for i := range rows {
		rows[i].Side = rows[i].Side || s.only != "" // such a form does less
	}
	return rows, nil
}

// serveWeb adds what N6 and N7 need to the baseline server.
func serveWeb(mux *http.ServeMux, root, target string) error {
	forms, err := webForms(root, target)
	if err != nil {
		return err
	}
	for form, h := range forms {
		mux.Handle(formPath(form)+"/", http.StripPrefix(formPath(form), h))
	}
	mux.HandleFunc("GET /blob", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
		w.Write(blob) //nolint:errcheck // the client is gone
	})
	mux.HandleFunc("POST /swallow", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || n != int64(len(blob)) {
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, "ok") //nolint:errcheck // the client is gone
	})
	return nil
}
