// Package dialogue holds the kinds that remember what was said and wait for what comes
// next: session, recall and remember, ask and form.
//
// Each kind is one literal, in a file of its name. hold.go has the queue of the processes
// of one session, durable.go what differs for those that survive a crash, row.go what is kept, cookie.go how a browser names its own.
// The package must not know where messages come from: the conversation of a process is in
// its context.
package dialogue

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return []*node.Def{
		askDef(o),
		formDef(o),
		recallDef(),
		rememberDef(o),
		sessionDef(o),
	}
}

// The out-port and the in-port that most kinds have.
func out(doc string) []node.Port { return []node.Port{{Name: "out", Doc: doc}} }

func in(doc string) []node.Port { return []node.Port{{Name: "in", Doc: doc}} }
