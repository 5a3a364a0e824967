package run_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestForkBytes bounds what the payloads of detached children take. One child may have more.
func TestForkBytes(t *testing.T) {
	g := &graph{}
	release, ended := make(chan struct{}), make(chan struct{})
	at := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		return node.Fork(node.SendThen(0, pkt.Payload, func(node.Process, node.Response) node.Result {
			ended <- struct{}{}
			return node.None()
		}))
	})
	g.link(at, 0, g.fn(1, func(node.Process, node.Packet) node.Result {
		return node.Await(func(_ context.Context, done func(node.Result)) {
			go func() {
				<-release
				done(node.None())
			}()
		})
	}))
	gen := g.open(t, run.Options{Budget: run.Budget{ForkBytes: 1000}})
	f := func(bytes int, want string) {
		t.Helper()
		wantText(t, gen.Send(t.Context(), nil, at, 0, value.String(strings.Repeat("x", bytes))), want)
	}
	const refused = "error: the payloads of forked processes take too much memory"
	f(2000, "None")
	f(10, refused)
	release <- struct{}{}
	<-ended
	for text(gen.Send(t.Context(), nil, at, 0, value.String(strings.Repeat("x", 500)))) != "None" { // until the child is gone
		runtime.Gosched()
	}
	f(300, "None")
	f(500, refused)
	close(release)
	<-ended
	<-ended
}
