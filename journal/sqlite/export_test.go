package sqlite

import "strconv"

// LimitPages keeps the file at its size, or lets it grow again.
func (s *Store) LimitPages(limit bool) error {
	s.write.Lock()
	defer s.write.Unlock()
	n := int64(1 << 30)
	if limit {
		var err error
		if n, err = s.pragma("page_count"); err != nil {
			return err
		}
	}
	return s.write.run("PRAGMA max_page_count = " + strconv.FormatInt(n, 10))
}
