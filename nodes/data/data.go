// Package data holds the kinds that keep data in databases.
//
// [Defs] lists them; sql.go has the kind sql, sql_source.go and sql_sink.go the kinds
// of streams, with rows_write.go for statements of many rows. statement.go takes the text of a
// statement apart, pool.go keeps the connections, transaction.go the transaction of a
// process, names.go looks for what statements name. sqlite.go, postgres.go, mysql.go and
// internal.go are the drivers: each makes a conn; library.go has what the clients of SQLite and
// MySQL have in common. The package must not know how processes are run.
package data

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return []*node.Def{sqlDef(), sourceDef().Def(o), sinkDef().Def(o)}
}
