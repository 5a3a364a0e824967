package auth

import (
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
)

// ended lists the sessions that the server has ended: by subject, the time before which they
// were begun, in seconds since 1970. The subject "" stands for everyone. It is immutable.
type ended map[string]int64

// newEnded reads the field ended. latest is what the time may be: one that is later would
// also end sessions that are begun now.
func newEnded(c schema.Config, latest time.Time) (ended, error) {
	e := make(ended)
	var found []error
	for _, rule := range c.List("ended") {
		before, err := time.Parse(time.RFC3339, rule.String("before"))
		switch {
		case err != nil:
			found = append(found, rule.Errorf("before", diag.CodeBadValue, "want a time such as 2026-01-31T12:00:00Z"))
			continue
		case before.After(latest):
			found = append(found, rule.Errorf("before", diag.CodeBadValue, "the time is in the future: no session would be good until then").WithHint("write the time of now, which date -u +%%FT%%TZ prints"))
			continue
		case rule.Has("subject") && rule.String("subject") == "":
			found = append(found, rule.Errorf("subject", diag.CodeBadValue, "the subject is empty").WithHint("leave it out to end the sessions of everyone"))
			continue
		}
		subject := rule.String("subject")
		e[subject] = max(e[subject], before.Unix())
	}
	return e, errors.Join(found...)
}

// has reports whether a session has been ended.
func (e ended) has(s *session) bool {
	return len(e) > 0 && s.Begun < max(e[s.Subject], e[""])
}
