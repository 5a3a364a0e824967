package mutation_test

// ofBatch are safeguards of package batch.
func ofBatch() []mutation {
	return []mutation{
		{name: "closed flag under the lock", file: "batch/intake.go", in: "batch/faults", test: "TestFault10_CloseRace",
			cuts: []cut{{`	if s.mu.closed {
		return nil, ErrClosed
	}
`, `	closed := s.mu.closed
	s.mu.Unlock()
	if closed {
		s.mu.Lock()
		return nil, ErrClosed
	}
	s.mu.Lock()
`}}},
		{name: "a body holds the memory", file: "batch/batch.go", in: "batch/faults", test: "TestFault04_LateBody",
			cuts: []cut{
				{"	b.retain()\n	b.bodies.add(1)\n", "	b.bodies.add(1)\n"},
				{"		b.batch.release()\n		b.batch.bodies", "		r.batch.bodies"},
			}},
		{name: "batches on the way at quit", file: "batch/queue.go", in: "batch/faults", test: "TestFault11_Exact",
			cuts: []cut{{"				parts[x.chunk] = append(parts[x.chunk], x)\n", "				_ = x\n"}}},
		{name: "ack after the fsync", file: "batch/store.go", in: "batch/faults", test: "TestFault07_Power",
			cuts: []cut{{"	case s.disk.SyncEvery < 0:\n", "	case true:\n"}}},
		{name: "reserve and insert as one", file: "batch/queue.go", in: "batch/faults", test: "TestFault05_Limit",
			cuts: []cut{
				{"	\"fmt\"\n", "	\"fmt\"\n	\"runtime\"\n"},
				{"	if !q.mu.capacity.take(c.slots, c.cost) {\n", `	room := q.mu.capacity
	fits := room.take(c.slots, c.cost)
	q.mu.Unlock()
	runtime.Gosched()
	q.mu.Lock()
	if fits {
		q.mu.capacity.events += c.slots
		q.mu.capacity.bytes += c.cost
	} else {
`},
			}},
		{name: "note of a batch before it is sent", file: "batch/store.go", in: "batch/faults", test: "TestFault06_Once",
			cuts: []cut{{"func (s *store) writeNote(b *Batch) {\n	if s == nil {\n", "func (s *store) writeNote(b *Batch) {\n	if true {\n"}}},
		{name: "checkpoint before a file goes", file: "internal/ground/spool/sync_loop.go", in: "batch/faults", test: "TestFault06_Once",
			cuts: []cut{{"s.removeDead(func() { s.writeCheckpoint(false) })", "s.removeDead(nil)"}}},
		{name: "fsync of the folder", file: "internal/ground/spool/sync_loop.go", in: "batch/faults", test: "TestFault07_Power",
			cuts: []cut{{"err = s.fs.SyncDir(s.opt.Dir)", "err = nil"}}},
		{name: "written again after a bad fsync", file: "batch/store.go", in: "batch/faults", test: "TestFault07_Power",
			cuts: []cut{{"		if s.rewrite(w.chunk, round) {\n", "		if false {\n"}}},
		{name: "first come in a lane", file: "batch/settings.go", in: "batch/faults", test: "TestFault01_ServerErrors",
			cuts: []cut{{"		s.laneCount, s.laneBatches, s.laneShards = s.lanesMax, 1, 1\n", "		s.laneCount, s.laneBatches, s.laneShards = s.lanesMax, 2, 1\n"}}},
		{name: "same key for each attempt", file: "batch/transmission.go", in: "batch/faults", test: "TestFault03_Server",
			cuts: []cut{{"	b.attempt++\n", "	b.attempt++\n	b.key += strconv.Itoa(b.attempt)\n"}}},
		{name: "bisection", file: "batch/transmission.go", in: "batch/faults", test: "TestFault12_Poison",
			cuts: []cut{{`		case b.count > 1:
			return t.cut(b, VerdictBisect,`, `		case b.count > 1000:
			return t.cut(b, VerdictBisect,`}}},
		{name: "back-off gives its place away", file: "batch/queue.go", in: "batch/faults", test: "TestFault12_Stuck",
			cuts: []cut{{"	if q.ordered || all.batches", "	if true || all.batches"}}},
		{name: "doubt about refusals", file: "batch/health.go", in: "batch/faults", test: "TestFault12_WrongAddress",
			cuts: []cut{{"const maxSuspects = 8", "const maxSuspects = 1 << 20"}}},
		{name: "split", file: "batch/transmission.go", in: "batch/faults", test: "TestFault12_TooLarge",
			cuts: []cut{{`	case VerdictSplit:
		if b.count > 1 {`, `	case VerdictSplit:
		if b.count > 1000 {`}}},
		{name: "gate for all lanes", file: "batch/transmission.go", in: "batch/faults", test: "TestFault13_Gate",
			cuts: []cut{{"t.throttle.pause(min(out.RetryAfter, t.retry.MaxRetryAfter))", "_ = out.RetryAfter"}}},
		{name: "longest Retry-After", file: "batch/transmission.go", in: "batch/faults", test: "TestFault13_Gate",
			cuts: []cut{{"min(out.RetryAfter, t.retry.MaxRetryAfter)", "out.RetryAfter"}}},
	}
}
