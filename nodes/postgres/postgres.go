// Package postgres has the kinds whose nodes follow changes of PostgreSQL.
package postgres

import (
	_ "github.com/jackc/pglogrepl"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return nil
}
