package streamtest

import (
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
)

// late serves a document while the system takes no connection, and returns when it takes
// some and the node is ready.
func (r *rig) late(document string) {
	r.Helper()
	r.proxy.Disturb(faultproxy.Trouble{Refuse: true})
	r.load(document)
	if reasons := r.engine.Ready(); len(reasons) != 1 || !strings.Contains(reasons[0].Error(), "test.yaml:1:") {
		r.Fatalf("the system is down, and the reasons not to be ready are %v; want the node with its place", reasons)
	}
	r.until("the log warns", patience, func() bool {
		log := r.log.String()
		return strings.Contains(log, "level=WARN") && strings.Contains(log, r.addr)
	})
	r.proxy.Heal()
	r.until("the node is ready", resume(), func() bool { return len(r.engine.Ready()) == 0 })
}

// sourceLate: a start without the system is a warning and goes on when the system is there.
func sourceLate(r *rig) {
	r.late(r.source(nil))
	r.produce(20, 5, 100)
	r.allDone()
}

func sinkLate(r *rig) {
	r.late(r.sink(nil))
	l := r.startLoad(false)
	l.progress("messages are confirmed", patience)
	l.end()
}
