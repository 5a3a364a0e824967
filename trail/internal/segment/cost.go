package segment

// What decides how codes and times are stored: the bytes that they take and the time to decode
// them, both in nanoseconds. The figures are constants, so that the same rows are the same
// file on every machine.

// byteCost is what a byte counts: a nanosecond, which a disk of 1 GB/s takes. In memory it
// takes a tenth.
const byteCost = 1.0

// The share of questions that decode a column: nearly all read times and events, and few of
// them any one property, whose bytes are stored all the same.
const (
	readAlways   = 1.0
	readProperty = 0.25
)

// A pace is how long decoding takes, in nanoseconds.
type pace struct {
	row  float64
	unit float64 // of a user, a run, an exception or a value that is not missing
}

// paces are those of reading blocks of 4,096 rows, the least of BenchmarkRead, BenchmarkUnits and, for times,
// BenchmarkTimes, on an Intel Xeon of 2.9 GHz. An encoding that is not here takes nothing: its codes are
// used where they are in the file. Of present it is half, since half of the questions about a property
// that rows lack are whether they have it, which reads its bits alone.
var paces = [encEnd]pace{
	encPacked: {row: 0.65}, encDigits: {row: 0.09}, encSparse: {0.02, 0.25}, encPresent: {0.12, 0.8},
	encUser: {0.1, 5}, encRuns: {0.1, 5}, encUserSparse: {0.1, 5},
}

var (
	paceGaps  = pace{0.9, 5}   // a user
	paceTimes = pace{row: 0.7} // packed
)

// cost returns what an encoding counts that takes some bytes, and is decoded by a share of the
// questions.
func (p pace) cost(bytes float64, rows, units int, share float64) float64 {
	return bytes*byteCost + share*(float64(rows)*p.row+float64(units)*p.unit)
}
