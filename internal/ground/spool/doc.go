// Package spool keeps records on disk until they are acknowledged: an append-only
// log in segment files, made durable by group fsync, with a recovery that gives
// back what is not acknowledged and never refuses to start for what it finds.
//
// Read Spool first, then Append, Durable and Ack, Open with Recovery, and
// Recovered. Tests give it a file system with faults, from package
// vfstest.
//
// # Use
//
// One program at a time has a folder open. It runs through Recovered once, appends
// records, is told by Durable when they are safe from a loss of power, and
// acknowledges each when it is not needed any more. Records may come back more
// than once after a crash, never with other content.
//
// # Invariants
//
//   - A record whose callback of Durable got nil and that was not acknowledged
//     comes back, whatever happens to the process or the power. One appended
//     without comes back if the process is killed, not if the power goes.
//   - A record that Append refused never comes back.
//   - An fsync that failed is not repeated: the kernel may have thrown away what
//     it could not write and report success. The segment is sealed and what the
//     fsync should have covered counts as not durable, for ever.
//   - A file is deleted only when all of it was acknowledged; damaged places count
//     as such once there is a copy in the folder "quarantine".
//   - Records become durable in the order in which they were appended.
//   - Without a call nothing happens: there are no ticking timers.
//
// Locks are taken in the order writer, remover, Spool.mu. The first two are held
// during I/O, which is what they put in order; the last never is. Callbacks run
// without any.
//
// It knows records; not events, batches, the network or the engine.
//
// # Files
//
// All numbers are little endian, all checksums CRC32C.
//
// A segment is called %016x.seg after its number, which counts from 1 and is never
// used twice:
//
//	0   8   magic "spoolseg"
//	8   4   checksum of bytes 12 to 32
//	12  4   version: 1. A file of another version is left alone; other versions
//	        begin with the same 32 bytes
//	16  8   number of the segment
//	24  8   epoch of the spool that made it
//	32      records, one after the other; then zeros, as far as the file was
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
// A checkpoint is in checkpoint.a or checkpoint.b, whichever was written longer
// ago; the valid one with the higher generation counts:
//
//	0   8   magic "spoolchk"
//	8   4   checksum of everything after this field, as far as the length says
//	12  4   version: 1
//	16  4   length in bytes; the rest of the file means nothing
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
//	16  8   everything before this offset was durable; what is not there now is
//	        damage, what is broken after it an interrupted write
//	24  8   events before that which are not acknowledged; all ones: not known
//	32  8   how many spans follow
//	40      spans of 16 bytes, acknowledged beyond mark: where each begins, and
//	        where it ends
//
// Damage costs whole records, never more: what a record holds is for its writer to
// choose. A segment that the last checkpoint knows and that is not there was removed
// by somebody else: its events count as lost.
//
// Losing both checkpoints costs duplicates, never data: recovery reads every
// segment that is there, the oldest first. Where a checksum is wrong it looks for
// the next place where one is right; what lies between goes to
// quarantine/SEGMENT-OFFSET.bytes, or, when nothing is right, the whole file goes
// to quarantine/SEGMENT.seg.
//
// The file "lock" is locked by who has the spool open. The file "spare" holds
// zeros, and is given up when a checkpoint finds the disk full.
package spool
