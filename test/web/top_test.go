package web_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTop looks at a program under load in terminals of two sizes.
func TestTop(t *testing.T) {
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "ping.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, session, addr := startConsole(t, string(example))
	load(t, addr, "/ping")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	admin, _, _ := strings.Cut(strings.TrimPrefix(session, "http://"), "/")
	for i, size := range [][2]int{{80, 24}, {200, 50}} {
		socket := filepath.Join(t.TempDir(), "tmux")
		tmux := func(args ...string) string {
			t.Helper()
			out, err := exec.Command("tmux", append([]string{"-S", socket}, args...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("tmux %q: %v\n%s", args, err, out)
			}
			return string(out)
		}
		// wait waits until the screen has something.
		wait := func(what string) {
			t.Helper()
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			var shown string
			for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); <-tick.C {
				if shown = tmux("capture-pane", "-p"); regexp.MustCompile("(?m)" + what).MatchString(shown) {
					return
				}
			}
			t.Fatalf("%v: want %s on the screen\n%s", size, what, shown)
		}
		tmux("new-session", "-d", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]),
			asProgram+"=1 "+self+" top "+admin+"; echo code $?; exec cat")
		wait(`^listener +listener +[1-9][0-9.k]* +0.00 +[0-9.]+ [µm]s`)
		tmux("send-keys", "/", "pong")
		wait(`^/pong_$`)
		tmux("send-keys", "Enter")
		wait(`^1 of 3 nodes with "pong"$`)
		tmux("send-keys", "Escape", ">")
		wait(`ERR/S\*`)
		if i == 0 {
			tmux("send-keys", "q")
			wait(`^code 0$`)
		} else {
			p.stop()
			wait(`the program has ended[^$]*code 3$`)
		}
		tmux("kill-server")
	}
}
