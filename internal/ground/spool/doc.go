// Package spool keeps records on disk until they are acknowledged. It is a
// write-ahead log in segment files, made durable by group fsync. Recovery returns
// the records that are not acknowledged, and never refuses to start because of
// damage.
//
// Read Spool first, then Append, Durable and Ack, Open with Recovery, and Recovered.
// Package vfstest has a file system with faults for tests.
//
// # Use
//
// One process at a time can open a folder. It iterates over Recovered once, appends
// records, learns from Durable when they survive a loss of power, and acknowledges
// each when it is no longer needed. After a crash, records may come back more than
// once, but never with other content.
//
// # Invariants
//
//   - A record whose Durable callback got nil and that was not acknowledged comes
//     back after a crash of the process or a loss of power. A record without such a
//     callback comes back after a crash of the process only.
//   - A record for which Append returned an error never comes back.
//   - An fsync that failed is not repeated: the kernel may have dropped the pages
//     that it could not write, and then report success. The segment is sealed, and
//     the records that the fsync should have covered never count as durable.
//   - A file is deleted only when all of it was acknowledged. A damaged place counts
//     as acknowledged once there is a copy of it in the folder "quarantine".
//   - Records become durable in the order in which they were appended.
//   - An idle spool has no running timer.
//
// Locks are taken in the order writer, remover, Spool.mu. The first two are held
// during I/O, which they order; the last never is. Callbacks run without locks.
//
// Payloads are opaque. For each record the spool knows a kind, and which events of
// which lane are in it: with that, recovery counts the events that were lost.
//
// # Files
//
// All numbers are little endian, all checksums CRC32C.
//
// The name of a segment is %016x.seg with its number. Numbers begin at 1 and are never
// used twice:
//
//	0   8   magic "spoolseg"
//	8   4   checksum of bytes 12 to 32
//	12  4   version: 1. A file of another version is not touched; other versions
//	        begin with the same 32 bytes
//	16  8   number of the segment
//	24  8   epoch of the spool that made it
//	32      records, one after the other; then zeros, as far as space was
//	        reserved
//
// A record:
//
//	0   4   magic "SPOL"
//	4   4   length of the payload
//	8   4   checksum of everything after this field, the payload included
//	12  1   kind: 1 data, 2 batch
//	13  1   flags: 0
//	14  2   lane
//	16  8   epoch
//	24  8   seq: the number of its first event in lane and epoch
//	32  4   count: its events
//	36      payload
//
// Checkpoints are written to checkpoint.a and checkpoint.b in turn. The valid one with
// the higher generation counts:
//
//	0   8   magic "spoolchk"
//	8   4   checksum of everything after this field, as far as the length says
//	12  4   version: 1
//	16  4   length in bytes; the rest of the file is ignored
//	20  4   how many segments follow the header
//	24  8   generation: higher with each
//	32  8   epoch
//	40  8   above the number of every segment so far
//	48      segments
//
// with, for each segment:
//
//	0   8   number
//	8   8   mark: everything before this offset is acknowledged
//	16  8   everything before this offset was durable: if it is missing or broken
//	        now, that is damage; after it, an interrupted write
//	24  8   unacknowledged events before that offset; all ones: unknown
//	32  8   number of spans
//	40      spans acknowledged beyond mark, 16 bytes each: start and end
//
// Damage costs whole records and nothing more. A segment that the last checkpoint has
// and that is missing was removed by another program: its events count as lost.
//
// Without both checkpoints, acknowledged records come back, but none is lost: recovery
// reads every segment, the oldest first. Where a checksum is wrong, it searches for
// the next valid record, and copies the bytes before it to
// quarantine/SEGMENT-OFFSET.bytes. A file without any valid record is moved to
// quarantine/SEGMENT.seg.
//
// The file "lock" is locked while a spool is open. The file "spare" has zeros, and is
// deleted when there is no space for a checkpoint.
package spool
