// Package postgres has the kinds whose nodes follow PostgreSQL: its changes, by logical
// replication, and its notifications.
//
// postgres_cdc opens a changeReader: setup.go finds or makes its slot, publication.go its
// publication, notes.go what that notes, snapshot.go reads the rows that are there, decode.go
// makes messages of what the server sends, progress.go says how far the server may forget, and
// feedback.go tells it. postgres_listen opens a
// noticeReader. Values are those of package data. The package must not know how processes
// are run.
package postgres

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	defs := []*node.Def{cdc().Def(o), listen().Def(o)}
	for _, def := range defs {
		def.Role = node.Connects
	}
	return defs
}
