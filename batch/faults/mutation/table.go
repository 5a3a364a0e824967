package main

// table lists the safeguards.
func table() []mutation {
	return []mutation{
		{
			name: "closed flag under the lock",
			file: "batch/ingest.go",
			test: "TestFault10_CloseRace",
			cuts: []cut{{`	defer s.mu.Unlock() // deferred, for the caller's Encode may panic
	if s.mu.closed {
		return Ticket{}, nil, ErrClosed
	}
`, `	closed := s.mu.closed
	s.mu.Unlock()
	if closed {
		return Ticket{}, nil, ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
`}},
		},
		{
			name: "a body holds the memory",
			file: "batch/batch.go",
			test: "TestFault04_LateBody",
			cuts: []cut{
				{"	b.retain()\n	b.bodies.open()\n", "	b.bodies.open()\n"},
				{"		r.batch.release()\n		r.batch.bodies", "		r.batch.bodies"},
			},
		},
		{
			name: "batches on the way at quit",
			file: "batch/close.go",
			test: "TestFault11_Exact",
			cuts: []cut{{"				parts[x.chunk] = append(parts[x.chunk], x)\n", "				_ = x\n"}},
		},
		{
			name: "ack after the fsync",
			file: "batch/disk.go",
			test: "TestFault07_Power",
			cuts: []cut{{"	case p.disk.SyncEvery < 0:\n", "	case true:\n"}},
		},
		{
			name: "reserve and insert as one",
			file: "batch/ingest.go",
			test: "TestFault05_Limit",
			cuts: []cut{{"	p.mu.events += c.slots\n", "	p.mu.Unlock()\n	time.Sleep(time.Microsecond)\n	p.mu.Lock()\n	p.mu.events += c.slots\n"}},
		},
		{
			name: "note of a batch before it is sent",
			file: "batch/disk.go",
			test: "TestFault06_Once",
			cuts: []cut{{"func (p *pipeline) note(b *Batch) {\n	if p.spool == nil {\n", "func (p *pipeline) note(b *Batch) {\n	if p.spool != nil {\n		return\n	}\n	if p.spool == nil {\n"}},
		},
		{
			name: "checkpoint before a file goes",
			file: "internal/ground/spool/keeper.go",
			test: "TestFault06_Once",
			cuts: []cut{{"s.removeDead(func() { s.writeCheckpoint(false) })", "s.removeDead(nil)"}},
		},
		{
			name: "fsync of the folder",
			file: "internal/ground/spool/keeper.go",
			test: "TestFault07_Power",
			cuts: []cut{{"err = s.fs.SyncDir(s.opt.Dir)", "err = nil"}},
		},
		{
			name: "written again after a bad fsync",
			file: "batch/disk.go",
			test: "TestFault07_Power",
			cuts: []cut{{"	case p.rewrite(w.chunk, round):\n", "	case false:\n"}},
		},
		{
			name: "first come in a lane",
			file: "batch/settings.go",
			test: "TestFault01_ServerErrors",
			cuts: []cut{{"		s.laneCount, s.laneFlights, s.laneShards = s.lanesMax, 1, 1\n", "		s.laneCount, s.laneFlights, s.laneShards = s.lanesMax, 2, 1\n"}},
		},
		{
			name: "same key for each attempt",
			file: "batch/ship.go",
			test: "TestFault03_Server",
			cuts: []cut{{"	b.attempt++\n", "	b.attempt++\n	b.key += fmt.Sprint(\"-\", b.attempt)\n"}},
		},
		{
			name: "bisection",
			file: "batch/ship.go",
			test: "TestFault12_Poison",
			cuts: []cut{{`		case b.count > 1:
			return f.cut(b, Bisect,`, `		case b.count > 1000:
			return f.cut(b, Bisect,`}},
		},
		{
			name: "back-off gives its place away",
			file: "batch/ship.go",
			test: "TestFault12_Stuck",
			cuts: []cut{{"	if f.ordered || all.batches", "	if true || all.batches"}},
		},
		{
			name: "doubt about refusals",
			file: "batch/lose.go",
			test: "TestFault12_WrongAddress",
			cuts: []cut{{"const mostDoubted = 8", "const mostDoubted = 1 << 20"}},
		},
		{
			name: "split",
			file: "batch/ship.go",
			test: "TestFault12_TooLarge",
			cuts: []cut{{`	case Split:
		if b.count > 1 {`, `	case Split:
		if b.count > 1000 {`}},
		},
		{
			name: "gate for all lanes",
			file: "batch/ship.go",
			test: "TestFault13_Gate",
			cuts: []cut{{"f.gate.shut(min(out.After, f.retry.MaxRetryAfter))", "_ = out.After"}},
		},
		{
			name: "longest Retry-After",
			file: "batch/ship.go",
			test: "TestFault13_Gate",
			cuts: []cut{{"min(out.After, f.retry.MaxRetryAfter)", "out.After"}},
		},
	}
}
