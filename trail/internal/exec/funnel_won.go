package exec

// won counts a user who has reached a level, or lists the user.
func (f *funnelScan) won(parts []part, level int) error {
	if !f.wins() {
		f.best.level = level
		return f.count(parts)
	}
	return f.user(parts, f.ordered(parts))
}
