package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	docs "github.com/uniflow-labs/uniflow/internal/site"
)

// TestSite makes the site of this checkout, searches it by keyboard and in Korean, and looks at it on a phone.
func TestSite(t *testing.T) {
	dir := t.TempDir()
	if err := docs.Write(os.DirFS(filepath.Join("..", "..")), dir); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	b := newBrowser(t, &flow{t: t})
	b.first(`window.errors = []; addEventListener('error', e => errors.push(e.message || e.target.outerHTML), true)`)
	b.screen(1440, 900, "light")
	b.open(server.URL)
	b.wait("the first page", "document.querySelector('h1')?.textContent == 'Uniflow'")

	b.do(chromedp.KeyEvent("/"))
	b.wait("the search to have the keyboard", "document.activeElement.type == 'search'")
	b.do(chromedp.KeyEvent("file_source rotat"))
	b.wait("results", "document.querySelectorAll('#found a').length > 0 && document.querySelector('#found mark')")
	b.do(chromedp.KeyEvent("zzz"))
	b.wait("nothing to be found", "document.querySelector('#found .none')")
	b.run("const i = document.querySelector('input'); i.value = 'funnel'; i.dispatchEvent(new Event('input'))")
	b.do(enterKey())
	b.arrives("/docs/trail")

	b.open(server.URL + "/README.ko.html")
	b.wait("the Korean page", "document.documentElement.lang == 'ko' && document.readyState == 'complete'")
	b.run("const i = document.querySelector('input'); i.value = 'kafka_source'; i.dispatchEvent(new Event('input'))")
	b.wait("Korean pages before the reference, which has it as a title", "document.querySelector('#found a')?.href.includes('.ko.html')")

	b.open(server.URL + "/docs/reference/kinds.html#router")
	b.wait("the heading of the kind below the header", `(() => {
		const top = document.getElementById('router')?.getBoundingClientRect().top
		return top >= document.querySelector('header').getBoundingClientRect().bottom - 1 && top < innerHeight
	})()`)
	pictures := t.ArtifactDir() // which go test -artifacts keeps
	for _, path := range []string{"", "docs/", "docs/reference/kinds.html", "docs/http.html", "docs/streams.ko.html", "BENCHMARKS.html"} {
		for _, width := range []int64{1440, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.screen(width, 900, scheme)
				b.open(server.URL + "/" + path)
				b.wait("the page", "document.readyState == 'complete'")
				if got := b.run("return document.documentElement.scrollWidth - innerWidth"); got != "0" {
					t.Errorf("/%s is %s pixels wider than a screen of %d", path, got, width)
				}
				b.picture(filepath.Join(pictures, fmt.Sprintf("%s-%d-%s.png", strings.NewReplacer("/", "_", ".html", "").Replace(path), width, scheme)))
			}
		}
	}
	if got := b.run("return errors.join()"); got != "" {
		t.Errorf("got errors %s", got)
	}
}

// screen sets the size of the window, and the colours that the person prefers.
func (b *tab) screen(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height), chromedp.Action[chromedp.Void](func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return chromedp.Void{}, err
	}))
}

// arrives waits until the window has another page, whose address has some text. A script may
// not run meanwhile, as it would end with its page.
func (b *tab) arrives(text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		address, err := chromedp.Run(ctx, chromedp.Location())
		if err == nil && strings.Contains(address, text) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("got %s and %v, want a page at %s", address, err, text)
		}
	}
}

// picture writes a picture of what the window shows.
func (b *tab) picture(file string) {
	b.t.Helper()
	data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err := errors.Join(err, os.WriteFile(file, data, 0o600)); err != nil {
		b.t.Fatal(err)
	}
}
