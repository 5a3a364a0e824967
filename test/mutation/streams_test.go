package mutation_test

// ofStreams are safeguards of sources and sinks. Mistakes of connectors are in the tests of
// node/stream/streamtest.
func ofStreams() []mutation {
	const in = "node/stream/streamtest"
	return []mutation{
		{name: "an error does not acknowledge", file: "node/stream/task.go", in: in, test: "TestQueue/source/2_errors",
			cuts: []cut{{"	if !t.resp.IsError() {\n		t.verdict = verdictGood\n", "	if true {\n		t.verdict = verdictGood\n"}}},
		{name: "marked when it was answered", file: "node/state/claims.go", in: in, test: "TestDedupe/source/2_errors",
			cuts: []cut{{"case ended || !v.rules.Settles(resp):", "case ended:"}, {"c.end(r, failure == nil)", "c.end(r, true)"}}},
		{name: "marked when its process has ended well", file: "node/state/claims.go", in: "nodes/streams", test: "TestDedupeProcess",
			cuts: []cut{{"c.end(r, failure == nil)", "c.end(r, true)"}}},
		{name: "processes do not wait for each other", file: "node/state/claims.go", in: "nodes/streams", test: "TestDedupeDeadlock",
			cuts: []cut{{"			if reaches(t.Value.keys", "			if false && reaches(t.Value.keys"}}},
		{name: "a key waits for retries", file: "node/stream/settle.go", in: in, test: "TestQueue/source/3_order",
			cuts: []cut{{"	s.env.later(t)\n", "	for _, m := range t.messages {\n		s.order.release(m)\n	}\n	s.env.later(t)\n"}}},
		{name: "a queue waits for its dead letters", file: "node/stream/settle.go", in: "node/stream", test: "TestAnUndecodableMessageKeepsItsPlace",
			cuts: []cut{{"		if m.queue == nil || m.queue.loose {\n			alone", "		if true {\n			alone"}}},
		{name: "equal settings share a reader", file: "node/stream/shared.go", in: in, test: "TestLog/source/6_reloads",
			cuts: []cut{{"!old.settings.equal(n.settings)", "true"}}},
		{name: "a position stops at a gap", file: "node/stream/lane.go", in: in, test: "TestLog/source/8_kill",
			cuts: []cut{{"	for l.ring.n > 0 && l.ring.at(0).settled {", "	for l.ring.n > 0 && (settled || l.ring.at(0).settled) {"}}},
		{name: "halves of a batch", file: "node/stream/settle.go", in: in, test: "TestQueue/source/9_poison",
			cuts: []cut{{"		half := n / 2\n", "		half := 1\n"}}},
		{name: "a piece is not a dead letter", file: "node/stream/settle.go", in: in, test: "TestQueue/source/9_poison",
			cuts: []cut{{"t.failed, t.letter, t.err = 0, false, nil", "t.failed = 0"}}},
		{name: "a lost record is not confirmed", file: "node/stream/sink_queue.go", in: in, test: "TestSink/sink/5_resets",
			cuts: []cut{{"	over := o.doneLocked(d, index, n, receipt, err)\n", "	if errors.Is(err, ErrLost) {\n		err = nil\n	}\n	over := o.doneLocked(d, index, n, receipt, err)\n"}}},
		{name: "equal settings share a writer", file: "node/stream/sink.go", in: in, test: "TestSink/sink/6_reloads",
			cuts: []cut{{"	return fmt.Sprintf(\"%x\", h.Sum(nil))", "	return fmt.Sprintf(\"%x %p\", h.Sum(nil), n)"}}},
		{name: "a refused record fails", file: "node/stream/sink_queue.go", in: in, test: "TestSink/sink/11_parts",
			cuts: []cut{{"			d.errs = append(d.errs, d.failureLocked(index+i, err))\n", "			_ = d.failureLocked(index+i, err)\n"}}},
	}
}
