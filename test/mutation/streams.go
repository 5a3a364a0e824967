package main

// ofStreams are safeguards of sources and sinks. Mistakes of connectors are in the tests of
// node/stream/streamtest.
func ofStreams() []mutation {
	return []mutation{}
}
