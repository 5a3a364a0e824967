package stream

// ReadKept reads the text of a file of positions.
var ReadKept = readKept
