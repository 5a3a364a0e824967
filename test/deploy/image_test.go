//go:build linux

package deploy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// user is the one that the image and the manifest run the program as.
const user = 65532

// buildProgram compiles the program as the image does, without its profile, and returns its path.
func buildProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "uniflow")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-pgo=off", "-o", file, "./cmd/uniflow")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return file
}

// An image is an empty root with what the Dockerfile copies into it.
type image struct {
	root       string
	entrypoint []string
	command    []string
	env        []string
	health     []string
}

func newImage(t *testing.T) *image {
	t.Helper()
	text := read(t, "Dockerfile")
	_, last, ok := strings.Cut(string(text), "\nFROM scratch\n")
	if !ok {
		t.Fatal("the last stage is not from scratch")
	}
	i := &image{root: t.TempDir()}
	words := func(prefix string) (list []string) {
		t.Helper()
		if err := json.Unmarshal([]byte(field(t, []byte(last), prefix)), &list); err != nil {
			t.Fatalf("%s: %v", prefix, err)
		}
		return list
	}
	i.entrypoint, i.command = words("ENTRYPOINT"), words("CMD")
	_, health, _ := strings.Cut(field(t, []byte(last), "HEALTHCHECK"), "CMD ")
	if err := json.Unmarshal([]byte(health), &i.health); err != nil {
		t.Fatalf("HEALTHCHECK: %v", err)
	}
	i.env = strings.Fields(field(t, []byte(last), "ENV "))
	if got, want := field(t, []byte(last), "USER "), fmt.Sprintf("%d:%d", user, user); got != want {
		t.Errorf("got USER %s, want %s", got, want)
	}
	built := buildProgram(t)
	for line := range strings.Lines(last) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "COPY" {
			continue
		}
		from, to := words[len(words)-2], filepath.Join(i.root, words[len(words)-1])
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		switch from {
		case "/out/uniflow":
			data, err := os.ReadFile(built)
			if err == nil {
				err = os.WriteFile(to, data, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
		case "/out/data", "/out/flows":
			if err := os.Mkdir(to, 0o755); err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() == 0 && strings.Contains(line, fmt.Sprintf("--chown=%d:%d", user, user)) {
				if err := os.Chown(to, user, user); err != nil {
					t.Fatal(err)
				}
			}
		case "/etc/ssl/certs/ca-certificates.crt": // of the stage that builds
		default:
			t.Errorf("COPY %s: the stage that builds does not make it", from)
		}
	}
	return i
}

// run prepares a command in the root, as the user of the image.
func (i *image) run(t *testing.T, words []string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = slices.Clone(i.env)
	cmd.Dir = "/data"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// flows has the kinds whose metrics the board and the alerts name.
const flows = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, limits: {processes: 1}, ports: {out: [{name: routes}]}}
- {kind: router, name: routes, routes: [{method: GET, path: /ping, port: "out[0]"}, {method: GET, path: /call, port: "out[1]"}], ports: {"out[0]": [{name: pong}], "out[1]": [{name: call}]}}
- {kind: snippet, name: pong, language: text, code: pong}
- {kind: http, name: call, url: "http://127.0.0.1:1/", timeout: 5s}
- {kind: file_source, name: lines, paths: "*.ndjson", follow: true, ports: {out: [{name: keep}], error: [{name: bad}]}}
- {kind: file_sink, name: keep, path: kept.txt}
- {kind: file_sink, name: bad, path: bad.txt}
- {kind: batch, name: ship, url: "http://127.0.0.1:1/", ports: {error: [{name: bad}]}}
- {kind: schedule, name: tick, interval: 1h, ports: {out: [{name: pong}]}}
`

// TestImage runs the command of the image in an empty root as its user: it serves, its health
// check passes, and it ends well. The metrics are looked up in a program that sees /proc, which
// a container does.
func TestImage(t *testing.T) {
	i := newImage(t)
	if err := os.WriteFile(filepath.Join(i.root, "flows", "flow.yaml"), []byte(flows), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Run("empty root", func(t *testing.T) {
		admin, web := serve(t, i.run(t, append(i.entrypoint, i.command...)))
		ready := i.run(t, i.health)
		ready.Env = append(ready.Env, "UNIFLOW_ADMIN="+admin, token)
		if out, err := ready.CombinedOutput(); err != nil || string(out) != "ready\n" {
			t.Errorf("%q: got %q, %v", i.health, out, err)
		}
		if body := get(t, "http://"+web+"/ping"); body != "pong" {
			t.Errorf("got %q, want pong", body)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		program := exec.Command(filepath.Join(i.root, i.entrypoint[0]), "start", filepath.Join(i.root, "flows"))
		program.Dir, program.Env = t.TempDir(), i.env
		admin, web := serve(t, program)
		for _, path := range []string{"/ping", "/call"} {
			get(t, "http://"+web+path)
		}
		checkMetrics(t, get(t, "http://"+admin+"/metrics"))
	})
}

const token = "UNIFLOW_ADMIN_TOKEN=abc"

// serve starts a program, which logs as JSON, and returns the addresses of its admin server and
// of its listener when it is ready. It is ended by SIGTERM at the end of the test.
func serve(t *testing.T, program *exec.Cmd) (admin, web string) {
	t.Helper()
	program.Env = append(program.Env, "UNIFLOW_ADMIN=127.0.0.1:0", token)
	log, err := program.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	t.Cleanup(func() {
		if err := program.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		for lines.Scan() { // until it ends
		}
		if err := program.Wait(); err != nil {
			t.Errorf("the end: %v", err)
		}
	})
	for lines.Scan() {
		var record struct{ Msg, Address string }
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		switch record.Msg {
		case "admin server listening":
			admin = record.Address
		case "listening":
			web = record.Address
		case "ready":
			return admin, web
		}
	}
	t.Fatal("the program has ended, or is not ready")
	return "", ""
}

// TestGrace compares the grace of the program with the time that each platform gives it: a second
// more, at least, and what comes before the signal.
func TestGrace(t *testing.T) {
	f := func(what, grace, most string, before time.Duration) {
		t.Helper()
		g, err := time.ParseDuration(grace)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := strconv.Atoi(most); err == nil {
			most += "s"
		}
		m, err := time.ParseDuration(most)
		if err != nil {
			t.Fatal(err)
		}
		if m < before+g+2*time.Second {
			t.Errorf("%s ends the program %s after it is asked to end, want 2 s more than its grace of %s and %s before it", what, m, g, before)
		}
	}
	unit := read(t, "uniflow.service")
	_, grace, _ := strings.Cut(field(t, unit, "Environment="), "UNIFLOW_GRACE=")
	grace, _, _ = strings.Cut(grace, " ")
	f("systemd", grace, field(t, unit, "TimeoutStopSec="), 0)

	_, grace, _ = strings.Cut(field(t, read(t, "Dockerfile"), "ENV "), "UNIFLOW_GRACE=")
	f("docker stop", grace, "10s", 0) // its default

	compose := read(t, "compose.yaml")
	most, _, _ := strings.Cut(field(t, compose, "stop_grace_period:"), " ")
	f("compose", field(t, compose, "UNIFLOW_GRACE:"), most, 0)

	pod := decode(t).pod
	f("the kubelet", variable(t, pod, "UNIFLOW_GRACE"), strconv.FormatInt(*pod.TerminationGracePeriodSeconds, 10),
		time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds)*time.Second)
}

// get returns the body of an answer, of any status.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer abc")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestUnit has systemd read the unit and judge how exposed the service is.
func TestUnit(t *testing.T) {
	unit := read(t, "uniflow.service")
	args := strings.Fields(field(t, unit, "ExecStart="))
	here, err := os.Executable() // a program that is there
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "uniflow.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(unit), "ExecStart="+args[0], "ExecStart="+here)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--man=no"}, {"security", "--offline=true", "--threshold=20", "--no-pager"}} {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", append(args, file)...).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze %q: %v\n%s", args, err, out)
		}
		if args[0] == "verify" && len(out) > 0 { // of a directive that it does not know, it only warns
			t.Errorf("systemd-analyze verify: %s", out)
		}
	}
}
