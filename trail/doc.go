// Package trail is an embedded store of events (user, time, name, properties),
// sorted by user, with queries over them: segmentation, funnels, retention, cohorts,
// paths.
//
// Read Open and Options first, then Store with Append, Import and Query. Events
// and queries have packages of their own, event and query. internal/exec runs
// queries, internal/segment reads and writes the files.
//
// # Files of a store
//
//	MANIFEST.a MANIFEST.b  what the store consists of, twice (see manifest.go)
//	LOCK                   locked by the one writer; says who that is
//	ACKNOWLEDGED           the last acknowledged commit of the log (see logend.go)
//	segments/              events, immutable; a name is never used twice
//	wal/                   events that are in no segment yet (internal/ground/spool)
//	cohorts/               sets of users that were kept under a name
//	tmp/                   unfinished output of imports and merges
//	lost/                  damaged segments that were given up; nothing reads it
//
// # Invariants
//
//   - What Append, Import, DeleteUser, DropBefore and a kept cohort have
//     acknowledged is there after a kill and, unless Options.NoSync, after a loss
//     of power. An append and a file of an import are there whole or not at all.
//   - The manifest decides: a file that it does not name is not part of the store.
//   - A segment has events of one bucket of time and, if the bucket has many, of a part
//     of the users: the users whose hash lies in one of 2^k equal ranges. So a merge takes
//     memory for one segment, whatever the bucket has.
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
//     has it is unpinned.
//
// # Parts
//
// A Store has the calls, and wires its parts, each of which is tested alone:
//
//   - folder: the files; segmentWriter makes segments.
//   - state: what the store consists of now, and the snapshots of it.
//   - catalog: commits changes to the manifest, then to the state.
//   - committer: the write-ahead log, with one fsync for the appends that wait; admission
//     decides which it takes, runBuilder makes runs in memory of them.
//   - flusher: from memory to segments. compactor: merges of segments. importer: files.
//   - reader: the state of a store that another process may write to.
//
// Locks are taken in this order: catalog.mu or reader.mu, which is held during the I/O of
// the manifest and serializes it; state.mu, which is never held during I/O;
// tombstones.mu. committer.late is before all of them, and Store.mu is held alone. What
// has no lock belongs to one goroutine: committer.run owns the admission and the runBuilder,
// and also runs what others give to committer.do.
//
// It does not depend on the engine, on HTTP, or on command lines, except for the
// commands of uniflow that its errors name as a remedy.
package trail
