package flow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// A blocking writer takes nothing until it is opened.
type blocking struct {
	open chan struct{}
	mu   sync.Mutex
	buf  bytes.Buffer
}

func (b *blocking) Write(p []byte) (int, error) {
	<-b.open
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// TestUnreadLogServes answers requests that log, and ends in time, while nothing reads
// standard error.
func TestUnreadLogServes(t *testing.T) {
	t.Chdir(t.TempDir())
	port := freeport.Port(t)
	apptest.Write(t, "f.yaml", fmt.Sprintf("- {kind: listener, name: web, host: 127.0.0.1, port: %d, access_log: true, ports: {out: [{name: pong, port: in}]}}\n"+
		"- {kind: snippet, name: pong, language: text, code: pong}\n", port))
	w := &blocking{open: make(chan struct{})}
	signals := make(chan os.Signal, 1)
	m := apptest.Machine(io.Discard, w, nil)
	m.Signals = func(...os.Signal) (<-chan os.Signal, func()) { return signals, func() {} }
	code := make(chan int, 1)
	go func() {
		code <- app.Main(t.Context(), []string{"start", "--from-specs", "f.yaml", "--grace", "1s"}, m, root)
	}()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	long := strings.Repeat("x", 4000) // 3,000 lines are more than the queue has room for
	answered := 0
	for answered < 3000 {
		resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", port, long))
		if errors.Is(err, syscall.ECONNREFUSED) && answered == 0 {
			continue // it does not listen yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp.StatusCode, err)
		}
		resp.Body.Close()
		answered++
	}
	signals <- syscall.SIGTERM
	select {
	case got := <-code:
		if got != 0 {
			t.Errorf("got exit code %d, want 0", got)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
	close(w.open)
}
