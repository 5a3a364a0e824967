package brokers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/test/answers"
)

// TestNATSAnswers sends each form of an answer through the sources of NATS. What follows is in
// the table of docs/workflows.md, in the columns that triggers without a server have, too.
func TestNATSAnswers(t *testing.T) {
	n := newNATSSystem(t)
	specs := func(fields string) string {
		return fmt.Sprintf("- {kind: nats_source, name: source, urls: %q, user: ann, password: correct, retry: {threshold: 0}, %s, ports: {out: [{name: form}], error: [{name: dead}]}}\n", n.server.URL(), fields)
	}
	f := func(column string, trigger answers.Trigger) {
		t.Run(trigger.Name, func(t *testing.T) {
			if got, want := answers.Cells(t, trigger), answers.Documented(t, column); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
	f("replies of sources", answers.Trigger{Name: "replies", Processes: 1, Failure: "error", Begin: func(w *answers.World) (string, func(string) string) {
		return specs("subjects: ask"), func(form string) string {
			answer, err := n.conn.Request("ask", []byte(`"`+form+`"`), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Header.Get("Nats-Service-Error") != "" {
				return "error"
			}
			return ""
		}
	}})

	// The server publishes an advisory for each message that is terminated. All others were
	// acknowledged, or they would wait for that.
	terminated, err := n.conn.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.ORDERS.answers")
	if err != nil {
		t.Fatal(err)
	}
	letters := 0
	f("all others", answers.Trigger{Name: "stream", Processes: 1, Failure: "dead letter", Begin: func(w *answers.World) (string, func(string) string) {
		return specs("stream: ORDERS, durable: answers"), func(form string) (failure string) {
			failure = w.Letter(func() {
				if _, err := n.js.Publish(w.T.Context(), "orders.made", []byte(`"`+form+`"`)); err != nil {
					w.T.Fatal(err)
				}
			})
			if failure != "" {
				letters++
				if _, err := terminated.NextMsg(time.Minute); err != nil {
					w.T.Errorf("%s: a dead letter is not terminated: %v", form, err)
				}
			}
			until(w.T, "the message is settled", func() bool {
				c, err := n.js.Consumer(w.T.Context(), "ORDERS", "answers")
				return err == nil && c.CachedInfo().NumAckPending == 0 && c.CachedInfo().NumPending == 0
			})
			return failure
		}
	}})
	if msg, err := terminated.NextMsg(100 * time.Millisecond); letters == 0 || err != nats.ErrTimeout {
		t.Errorf("after %d dead letters: %v, %v", letters, msg, err)
	}
}
