// Package kafka has the kinds whose nodes exchange messages with Kafka.
//
// Each kind is one literal, in a file of its name. The package must not know how
// processes are run.
package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def { return nil }

// The library of the kinds to come.
var _ = kgo.NewClient
