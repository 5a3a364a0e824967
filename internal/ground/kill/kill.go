// Package kill kills the program at points of its code, for tests of what a crash leaves. Only a program
// that is built with the tag "faults" does so; otherwise nothing of this package is compiled into it.
//
// UNIFLOW_KILL=K5:3 kills it when it passes point K5 for the third time, as kill -9 does.
package kill

// A Point is a place in the code of durable processes.
type Point string

// The points, in the order in which a run passes them.
const (
	StartAdded      Point = "K1"  // a start is about to be committed
	StartCommitted  Point = "K2"  // it is durable, and nothing knows
	Acknowledged    Point = "K3"  // a client has been answered
	BarrierPassed   Point = "K4"  // an effect is about to begin
	EffectDone      Point = "K5"  // it is done, and not recorded
	RecordAdded     Point = "K6"  // its record is about to be committed
	RecordCommitted Point = "K7"  // its record is durable, and nothing knows
	HoldCommitted   Point = "K8"  // likewise the beginning of a wait
	Unloaded        Point = "K9"  // a run that waits has left memory
	SignalCommitted Point = "K10" // a signal is durable, and no run has got it
	Claimed         Point = "K11" // an item, or a run that goes on, is claimed, and has not begun
	InReplay        Point = "K12" // a record is about to be replayed
	Live            Point = "K13" // all are
	EndAdded        Point = "K14" // the end of a run is about to be committed
	EndCommitted    Point = "K15" // it is durable, and there is no answer
	InCommit        Point = "K17" // the rows of a transaction are written, and it is not committed
	InRetention     Point = "K18" // likewise one that has removed runs
	Inserted        Point = "K19" // a tick or an item is durable, and nothing knows
)
