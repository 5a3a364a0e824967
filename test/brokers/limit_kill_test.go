package brokers_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/test/brokers"
)

// TestLimitKill kills a program while its payload is the only one that may be on its way. It counts
// for 30 seconds, and then another program lets the next one pass. At full length the test waits
// for them; otherwise it moves what Redis keeps into the past.
func TestLimitKill(t *testing.T) {
	r := newRedisSystem(t)
	doc := func(next string) string {
		return fmt.Sprintf("- {kind: limit, name: guard, concurrency: 1, store: {driver: redis, source: 'redis://:%s@%s'}, ports: {out: [{name: next}]}}\n- %s\n", redisPassword, r.server.Addr(), next)
	}
	other := start(t, doc("{kind: snippet, name: next, language: text, code: passed}"))
	passes := func() bool {
		t.Helper()
		got := other.send(t, "guard", "{}")
		if got != `"passed"` && !strings.HasSuffix(got, "[concurrency]") {
			t.Fatal(got)
		}
		return got == `"passed"`
	}

	web := freeport.Addr(t)
	_, port, _ := strings.Cut(web, ":")
	file := filepath.Join(t.TempDir(), "w.yaml")
	killed := doc("{kind: sleep, name: next, interval: 1h}") + "- {kind: listener, name: web, host: 127.0.0.1, port: " + port + ", ports: {out: [{name: guard}]}}\n"
	if err := os.WriteFile(file, []byte(killed), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log syncbuffer.Buffer
	cmd := exec.Command(self, "start", file)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asProgram+"=1"), &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("kill: %v\n%s", err, log.Tail(2000))
		}
		_ = cmd.Wait() // it was killed
	})
	t.Cleanup(kill)
	eventually(t, "the program", func() bool {
		conn, err := net.Dial("tcp", web)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	var client sync.WaitGroup
	defer client.Wait()
	defer kill()
	client.Go(func() {
		if resp, err := http.Post("http://"+web, "text/plain", strings.NewReader("x")); err == nil {
			t.Errorf("the program has answered: %s", resp.Status)
			resp.Body.Close()
		}
	})
	list := func(command ...string) []string {
		m := r.do(t, command...)
		all, err := m.AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	eventually(t, "a payload on its way", func() bool { return len(list("KEYS", "*:leases")) > 0 })
	key := list("KEYS", "*:leases")[0]
	kill()
	began := time.Now()
	pass := func(seconds int) {
		for _, lease := range list("ZRANGE", key, "0", "-1") {
			r.do(t, "ZINCRBY", key, strconv.Itoa(-seconds*1_000_000), lease)
		}
	}
	for _, seconds := range []int{0, 20} {
		if !brokers.Full() {
			pass(seconds)
		}
		if passes() && time.Since(began) < 9*time.Second {
			t.Errorf("another passes %v after the kill, and %d seconds of Redis", time.Since(began), seconds)
		}
	}
	if !brokers.Full() {
		pass(10)
	}
	eventually(t, "the payload of another program", passes)
	t.Logf("after %v", time.Since(began))
}
