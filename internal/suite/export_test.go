package suite

// Differs compares the calls of a mock.
var Differs = differs
