package trail

import (
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// Explain says in words how a query would be run.
func (s *Store) Explain(q *query.Query, opt QueryOptions) (string, error) {
	opt.Save = false
	q, err := prepare(q, opt)
	if err != nil {
		return "", err
	}
	sn, err := s.state.view()
	if err != nil {
		return "", err
	}
	defer sn.unpin()
	in, err := sn.execInput(q)
	if err != nil {
		return "", err
	}
	text, err := exec.Explain(in, q)
	return text, sn.asDamaged(err)
}
