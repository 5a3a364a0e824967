package state

// Left returns how much claims know of processes and packets.
func (s *Keys) Left() int {
	s.Claims.Lock()
	defer s.Claims.Unlock()
	return len(s.Claims.holders) + len(s.Claims.roots) + s.queues.Len() + s.Held
}
