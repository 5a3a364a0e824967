// Package redis has the kinds whose nodes exchange data with Redis.
package redis

import (
	_ "github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return nil
}
