//go:build linux && !race

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// documents attacks with untrusted files. uniflow check must not open what they name,
// and must end soon.
func documents(t *testing.T) {
	snippet := func(code string) string {
		return "- kind: snippet\n  name: x\n  language: javascript\n  code: |\n    " + code + "\n"
	}
	sourceMap := func(file string) map[string]string {
		return map[string]string{"flow.yaml": snippet("//# sourceMappingURL=" + file + "\n    export default () => 1")}
	}
	importing := func(script string) map[string]string {
		return map[string]string{"flow.yaml": snippet("import './x.js'\n    export default () => 1"), "x.js": script}
	}
	for _, d := range []struct {
		name  string
		files map[string]string
		fifo  string
	}{
		{name: "source map of the environment", files: sourceMap("/proc/self/environ")},
		{name: "source map without an end", files: sourceMap("/dev/zero")},
		{name: "source map that is a FIFO", files: sourceMap("pipe"), fifo: "pipe"},
		{name: "import that is a FIFO", files: map[string]string{"flow.yaml": snippet("import './pipe.js'\n    export default () => 1")}, fifo: "pipe.js"},
		{name: "document that is a FIFO", files: map[string]string{"flow.yaml": "- {kind: nop, name: x}\n"}, fifo: "x.yaml"},
		{name: "import of many branches", files: importing(strings.Repeat("if(0);else ", 450_000))},
		{name: "import of many brackets", files: importing(strings.Repeat("[", 400_000))},
		{name: "many arrows", files: map[string]string{"flow.yaml": snippet("export default " + strings.Repeat("a=>", 40_000) + "1")}},
		{name: "many sums", files: map[string]string{"flow.yaml": snippet("export default () => " + strings.Repeat("1+", 60_000) + "1")}},
		{name: "many declarations", files: map[string]string{"flow.yaml": snippet(strings.Repeat("let a;", scale(5_000, 21_000)) + "export default () => 1")}},
		{name: "many aliases", files: map[string]string{"flow.yaml": "- kind: nop\n  name: x\n  annotations: &a {k: v}\n" + strings.Repeat("- *a\n", 14_000)}},
		{name: "many documents", files: map[string]string{"flow.yaml": strings.Repeat("---\n", 1_000_000)}},
	} {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range d.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if d.fifo != "" {
				if err := syscall.Mkfifo(filepath.Join(dir, d.fifo), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			const secret = "hunter2-of-the-operator"
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := limited(ctx, 512*mib, "check", dir)
			cmd.Env = append(os.Environ(), "SECRET_TOKEN="+secret)
			began := time.Now()
			out, err := cmd.CombinedOutput()
			took := time.Since(began)
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() > 1 || cmd.ProcessState.ExitCode() < 0 {
				t.Errorf("got %v, want exit code 0 or 1: %.2000s", err, out)
			}
			if took > 15*time.Second { // the limit of check, and the start on a busy machine
				t.Errorf("it took %v", took)
			}
			if bytes.Contains(out, []byte(secret)) || bytes.Contains(out, []byte("SECRET_TOKEN")) {
				t.Errorf("it prints the environment: %.2000s", out)
			}
			if len(out) > 64<<10 {
				t.Errorf("it prints %d bytes", len(out))
			}
			t.Logf("exit code %d after %v", cmd.ProcessState.ExitCode(), took.Round(time.Millisecond))
		})
	}
}

// receivers attacks with what is sent to uniflow loader.
func receivers(t *testing.T) {
	load := func(t *testing.T, args ...string) *target {
		addr := freeport.Addr(t)
		s := launch(t, 1024*mib, append([]string{"loader", "--addr", addr}, args...)...)
		s.addr = addr
		s.await("the loader", 30*time.Second, func() error {
			_, _, err := s.ask(time.Second, http.MethodGet, "/health", nil, nil)
			return err
		})
		return s
	}
	send := func(s *target, header map[string]string, body []byte) error {
		header["Content-Type"] = "application/json"
		status, answer, err := s.ask(20*time.Second, http.MethodPost, "/batch", header, body)
		if err == nil && status/100 != 2 {
			err = fmt.Errorf("status %d: %.200s", status, answer)
		}
		return err
	}
	t.Run("streamed zstd", func(t *testing.T) {
		s := load(t, "--out", t.TempDir())
		var events []map[string]any
		for i := range 100_000 {
			events = append(events, map[string]any{"user": fmt.Sprint("u", i%100), "n": i})
		}
		text, err := json.Marshal(events)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		w, err := zstd.NewWriter(&body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := send(s, map[string]string{"Content-Encoding": "zstd"}, body.Bytes()); err != nil {
			t.Errorf("%d events: %v", len(events), err)
		}
	})
	t.Run("slow bodies", func(t *testing.T) {
		s := load(t, "--out", t.TempDir())
		for range 64 {
			fmt.Fprintf(s.dial(), "POST /batch HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n[", s.addr)
		}
		began := time.Now()
		s.await("a batch during slow ones", 20*time.Second, func() error {
			return send(s, map[string]string{}, []byte(`[{"n":1}]`))
		})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a batch took %v during 64 slow ones", took)
		}
	})
	t.Run("all times", func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "store")
		s := load(t, "--trail", store)
		at := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
		for range scale(20, 230) {
			var events []map[string]any
			for range 500 {
				events = append(events, map[string]any{"user": "u", "event": "e", "time": at.Format(time.RFC3339)})
				if at = at.AddDate(0, 0, 28); at.Year() > 9990 {
					at = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
				}
			}
			body, err := json.Marshal(events)
			if err != nil {
				t.Fatal(err)
			}
			if err := send(s, map[string]string{}, body); err != nil {
				t.Logf("a batch was refused: %v", err)
			}
		}
		if err := send(s, map[string]string{}, fmt.Appendf(nil, `[{"user":"u","event":"e","time":%q}]`, time.Now().UTC().Format(time.RFC3339))); err != nil {
			t.Errorf("an event of now: %v", err)
		}
		if code, took := s.terminate(60 * time.Second); code != 0 {
			t.Errorf("it ended with %d after %v: %s", code, took, s.output())
		}
		out, err := exec.CommandContext(t.Context(), program, "trail", "info", "--db", store, "--json").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		files := 0
		err = filepath.WalkDir(store, func(string, os.DirEntry, error) error { files++; return nil })
		if err != nil || files > 1000 {
			t.Errorf("the store has %d files, error %v, want few", files, err)
		}
		t.Logf("%d files", files)
	})
}

// operation tries to keep an operator from ending or watching the program.
func operation(t *testing.T) {
	document := strings.Replace(front, "LARGE", "x", 1)
	t.Run("a log that is not read", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		addr := freeport.Addr(t)
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "flow.yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(document, "PORT", port)), 0o600); err != nil {
			t.Fatal(err)
		}
		s := piped(t, w, "start", "--from-specs", file, "--grace", "2s")
		s.addr = addr
		s.await("the workflow", 30*time.Second, func() error { return s.small(time.Second) })
		for range scale(1500, 5000) {
			if err := s.small(5 * time.Second); err != nil {
				t.Fatalf("while the log is not read: %v", err)
			}
		}
		code, took := s.terminate(30 * time.Second)
		t.Logf("exit code %d, %v after SIGTERM with a grace of 2s", code, took)
		if took > 8*time.Second {
			t.Errorf("it took %v to end with a grace of 2s", took)
		}
	})
	t.Run("a foreign page and the admin server", func(t *testing.T) {
		admin := freeport.Addr(t)
		s := serve(t, 1024*mib, document, "--admin", admin)
		s.addr = admin
		for _, header := range []map[string]string{{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}} {
			status, _, err := s.ask(5*time.Second, http.MethodGet, "/debug/pprof/heap", header, nil)
			if err != nil || status != http.StatusForbidden {
				t.Errorf("%v: got %d, %v, want 403", header, status, err)
			}
		}
		if status, _, err := s.ask(5*time.Second, http.MethodGet, "/healthz", nil, nil); err != nil || status != http.StatusOK {
			t.Errorf("no page: got %d, %v, want 200", status, err)
		}
	})
}

// piped starts the program with a pipe for standard error.
func piped(t *testing.T, w *os.File, args ...string) *target {
	t.Helper()
	s := &target{t: t, log: os.DevNull, done: make(chan struct{})}
	s.cmd = limited(context.Background(), 1024*mib, args...)
	s.cmd.Stderr = w
	s.start()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}
