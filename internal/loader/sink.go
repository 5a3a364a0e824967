package loader

// A Sink keeps events. The journal remembers where it put which batch, so a sink
// need know nothing of keys, answers and what was promised to whom.
//
// All methods are called by one goroutine and may block. After an error of
// Append or Sync the next call is Cut; whether the events of the failed calls are
// kept is then up to Cut alone.
type Sink interface {
	// Append adds lines of NDJSON, which it must not keep, and tells where they
	// are. The lines of one call stay together.
	Append(lines []byte) (Span, error)

	// Sync returns when what was appended survives a loss of power.
	Sync() error

	// Cut takes away whatever lies after a position, so that nothing is there
	// which the journal does not vouch for. It comes first of all, and after
	// errors. Later spans begin at the position or after it.
	Cut(Position) error

	// End returns a position after everything that is there, the zero position if
	// nothing is. It comes before the first Cut, in place of what the journal says,
	// when there is none.
	End() (Position, error)

	// Files returns how many files there are.
	Files() int

	// Close lets go of what is held open. What was not synced may be lost.
	Close() error
}

// A Position is a place in a sink. The zero value is before everything.
type Position struct {
	File   uint64 // numbered from 1
	Offset int64  // bytes
}

// before reports whether a position comes before another.
func (p Position) before(q Position) bool {
	return p.File < q.File || p.File == q.File && p.Offset < q.Offset
}

// A Span is where the events of a batch are. The zero value is that of a batch
// without any.
type Span struct {
	Position
	Length int64 // bytes
}

// end is the position after the span.
func (s Span) end() Position { return Position{s.File, s.Offset + s.Length} }
