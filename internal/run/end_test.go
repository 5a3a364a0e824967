package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// participant writes down how it is called.
func participant(log *[]string, name string, kept bool, err error) node.Participant {
	return func(ctx context.Context, failure error) (bool, error) {
		*log = append(*log, fmt.Sprintf("%s %v %v", name, failure, ctx.Err()))
		if failure != nil {
			return false, nil
		}
		return kept && err == nil, err
	}
}

// TestEnd is rule 8: participants are called phase by phase and the latest first, before
// the context is done and before the answer is out. One that fails is the answer, and the
// others undo what they have done. What is held is released at last.
func TestEnd(t *testing.T) {
	no := errors.New("no")
	f := func(name string, judge node.Judge, register func(p node.Process, log *[]string), payload value.Value, wantAnswer, wantLog string) {
		t.Helper()
		var log []string
		g := &graph{}
		at := g.fn(1, func(p node.Process, pkt node.Packet) node.Result {
			register(p, &log)
			return node.Send(0, pkt.Payload)
		})
		got := text(g.open(t, run.Options{}).Send(t.Context(), judge, at, 0, payload))
		if got != wantAnswer {
			t.Errorf("%s: got answer %s, want %s", name, got, wantAnswer)
		}
		if all := strings.Join(log, "; "); all != wantLog {
			t.Errorf("%s: got %s, want %s", name, all, wantLog)
		}
	}
	all := func(first, second, session, mark error) func(p node.Process, log *[]string) {
		return func(p node.Process, log *[]string) {
			p.Defer(func() { *log = append(*log, "release 1") })
			p.Enlist(node.PhaseMark, participant(log, "mark", true, mark))
			p.Enlist(node.PhaseDatabase, participant(log, "second", true, second))
			p.Enlist(node.PhaseSession, participant(log, "session", true, session))
			p.Enlist(node.PhaseDatabase, participant(log, "first", true, first))
			p.Defer(func() { *log = append(*log, "release 2") })
		}
	}
	one := value.Int(1)
	f("good", nil, all(nil, nil, nil, nil), one, "1",
		"first <nil> <nil>; second <nil> <nil>; session <nil> <nil>; mark <nil> <nil>; release 2; release 1")
	f("error", nil, all(nil, nil, nil, nil), value.Error(no), "error: no",
		"first no <nil>; second no <nil>; session no <nil>; mark no <nil>; release 2; release 1")
	f("judged", func(resp node.Response) error { return fmt.Errorf("%s is too much", text(resp)) }, all(nil, nil, nil, nil), one, "1",
		"first 1 is too much <nil>; second 1 is too much <nil>; session 1 is too much <nil>; mark 1 is too much <nil>; release 2; release 1")
	f("judge panics", func(node.Response) error { panic("boom") }, func(p node.Process, log *[]string) {
		p.Enlist(node.PhaseMark, func(_ context.Context, failure error) (bool, error) {
			*log = append(*log, node.Message(failure))
			return false, nil
		})
	}, one, "error: panic: boom", "panic: boom")
	f("first fails", nil, all(no, nil, nil, nil), one, "error: no",
		"first <nil> <nil>; second no <nil>; session no <nil>; mark no <nil>; release 2; release 1")
	f("in part", nil, all(nil, no, nil, nil), one, "error: committed in part (1 database), and then: no",
		"first <nil> <nil>; second <nil> <nil>; session committed in part (1 database), and then: no [partial] <nil>; mark committed in part (1 database), and then: no [partial] <nil>; release 2; release 1")
	f("mark fails", nil, func(p node.Process, log *[]string) { all(nil, nil, nil, no)(p, new([]string)) }, one,
		"error: committed in part (2 databases, 1 session), and then: no", "")
	f("nothing kept", nil, func(p node.Process, log *[]string) {
		p.Enlist(node.PhaseDatabase, participant(log, "reads", false, nil))
		p.Enlist(node.PhaseSession, participant(log, "session", true, no))
	}, one, "error: no", "reads <nil> <nil>; session <nil> <nil>")
	f("late", nil, func(p node.Process, log *[]string) {
		p.Enlist(node.PhaseMark, func(context.Context, error) (bool, error) {
			p.Enlist(node.PhaseDatabase, participant(log, "late", true, nil))
			return false, no
		})
	}, one, "error: no", "late no <nil>")
	f("release panics", nil, func(p node.Process, log *[]string) {
		p.Defer(func() { *log = append(*log, "other") })
		p.Defer(func() { panic("boom") })
	}, one, "1", "other")
}

// TestEndInPartIsLogged has the code, the phases and the error in the log, as a client may
// have gone.
func TestEndInPartIsLogged(t *testing.T) {
	var out bytes.Buffer
	g := &graph{}
	at := g.fn(1, func(p node.Process, pkt node.Packet) node.Result {
		p.Enlist(node.PhaseDatabase, participant(new([]string), "commit", true, nil))
		p.Enlist(node.PhaseSession, participant(new([]string), "save", true, errors.New("the disk is full")))
		return node.Send(0, pkt.Payload)
	})
	g.open(t, run.Options{Log: slog.New(slog.NewTextHandler(&out, nil))}).Send(t.Context(), nil, at, 0, value.Null())
	for _, want := range []string{"level=ERROR", "code=partial", `committed="1 database"`, `error="the disk is full"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got log %s, want %s", out.String(), want)
		}
	}
}

// TestRootEnds has a child whose participant belongs to the root, and one that ends by
// itself.
func TestRootEnds(t *testing.T) {
	var log []string
	g := &graph{}
	child := g.fn(1, func(p node.Process, pkt node.Packet) node.Result {
		p.Root().Enlist(node.PhaseDatabase, participant(&log, "root", true, nil))
		p.Enlist(node.PhaseDatabase, participant(&log, "child", true, nil))
		if !p.HasClient() {
			t.Error("a child has no client, although its root has")
		}
		return node.Send(0, pkt.Payload)
	})
	at := g.fn(1, func(p node.Process, pkt node.Packet) node.Result {
		return node.Spawn([]node.Result{node.Send(0, pkt.Payload)}, 0, func(node.Process, []node.Response) node.Result {
			return node.Fail(errors.New("no"))
		})
	})
	g.link(at, 0, child)
	g.open(t, run.Options{}).Send(t.Context(), nil, at, 0, value.Null())
	if got, want := strings.Join(log, "; "), "child <nil> <nil>; root"; !strings.HasPrefix(got, want) || !strings.Contains(got, "root node") {
		t.Errorf("got %s, want the child's own and then the root's with the failure", got)
	}
}
