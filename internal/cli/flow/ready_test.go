package flow

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/node"
)

// A lateNode is ready once the test sets ready.
type lateNode struct {
	node.ReceiverFunc
	ready *atomic.Bool
}

func (n lateNode) Ready() error {
	if n.ready.Load() {
		return nil
	}
	return errors.New("the broker is down")
}

// TestReadyLater logs once what is waited for, and then that all nodes are ready; also
// after a reload.
func TestReadyLater(t *testing.T) {
	var ready atomic.Bool
	late := &node.Def{
		Kind: "late", Summary: "Is ready later.", In: []node.Port{{Name: "in"}},
		New: func(*node.Init) (node.Node, error) { return lateNode{nil, &ready}, nil },
	}
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", "- {kind: late, name: a}\n")
	s := serveKinds(t, []*node.Def{late}, "f.yaml")
	s.await(`msg="not ready yet" error="waiting for node \\"a\\" \(f.yaml:1:3\): the broker is down"`)
	ready.Store(true)
	s.await("msg=ready nodes=1")
	ready.Store(false)
	apptest.Write(t, "f.yaml", "- {kind: late, name: b}\n- {kind: late, name: c}\n")
	s.signals <- syscall.SIGHUP
	s.await(`msg="not ready yet" .*the broker is down\\nwaiting for node \\"c`)
	ready.Store(true)
	s.await("msg=ready nodes=2")
	if n := strings.Count(s.text(), "not ready yet"); n != 2 {
		t.Errorf("got %d log records about nodes that are not ready, want 2:\n%s", n, s.text())
	}
	s.signals <- syscall.SIGTERM
	s.ended(0)
}
