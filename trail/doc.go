// Package trail is an embedded store of events (user, time, name, properties),
// sorted so that what one user did stands together, and the place where queries
// are asked of it: segmentation, funnels, retention, cohorts, paths.
//
// Read Open and Options first, then Store with Append, Import and Query. Events
// and queries have packages of their own, event and query; the answers come from
// internal/exec, the files from internal/segment.
//
// # Files of a store
//
//	MANIFEST.a MANIFEST.b  what the store consists of, twice (see manifest.go)
//	LOCK                   locked by the one writer, and who that is
//	ACKNOWLEDGED           how far the log was answered (see logend.go)
//	segments/              events, immutable; a name is never used twice
//	wal/                   events that are in no segment yet (internal/ground/spool)
//	cohorts/               sets of users that were kept under a name
//	tmp/                   what an import or a merge is about to finish
//	lost/                  damaged segments that were given up; part of nothing
//
// # Invariants
//
//   - What Append, Import, DeleteUser, DropBefore and a kept cohort have
//     acknowledged is there after a kill and, unless Options.NoSync, after a loss
//     of power. An append and a file of an import are there whole or not at all.
//   - The manifest decides: a file that it does not name is none of the store.
//   - What was acknowledged and is damaged is not forgotten: a segment until Discard
//     gives it up, records of the log until the user removes wal/quarantine.
//   - Rows that are equal in user, time and id are kept once, wherever they came
//     from. Rows without an id are all kept.
//   - Events carry the number of the commit that brought them. A deleted user is
//     hidden in everything up to the commit of the deletion; merges apply the
//     deletions that their inputs are subject to, so that a run never holds rows
//     on both sides of one.
//   - A query sees one immutable snapshot, which it pins with one atomic counter;
//     it takes no lock. A file is unmapped and deleted when the last snapshot that
//     has it is let go.
//
// Locks are taken in the order Store.turn, Store.mu. The first is held during the
// I/O of the manifest, which it puts in order; the second never is during any.
//
// It knows nothing of the engine, of HTTP, or of command lines, but for the commands
// of uniflow that its errors name as the way out.
package trail
