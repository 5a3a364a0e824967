package node

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
)

// Hosts are patterns of hosts, such as *.example.com, which does not match example.com.
// "*" matches everything. The zero Hosts match nothing. They are immutable.
type Hosts struct{ patterns []string }

// NewHosts reads the patterns of a field, which is a list of strings.
func NewHosts(c schema.Config, field string) (Hosts, error) {
	var h Hosts
	for _, pattern := range c.Strings(field) {
		if _, err := path.Match(pattern, ""); err != nil {
			return Hosts{}, c.Errorf(field, diag.CodeBadValue, "%q is not a pattern of a host: %v", pattern, err).WithHint("write one such as *.example.com")
		}
		h.patterns = append(h.patterns, strings.ToLower(pattern))
	}
	return h, nil
}

// IsZero reports whether there are no patterns.
func (h Hosts) IsZero() bool { return len(h.patterns) == 0 }

// Match reports whether a host, with its port if it has one, matches a pattern, whatever
// the case of its letters. The empty host, which pages without an origin have,
// matches nothing but "*".
func (h Hosts) Match(host string) bool {
	if host == "" {
		return slices.Contains(h.patterns, "*")
	}
	host = strings.ToLower(host)
	for _, pattern := range h.patterns {
		if ok, err := path.Match(pattern, host); ok && err == nil || pattern == "*" {
			return true
		}
	}
	return false
}

// Admits reports whether a request may come from a page, where origins are its headers
// Origin and host is the host that it is for. Clients that are not browsers have no origin,
// and may. So may pages of the same host, and those whose host matches; the latter are
// foreign.
func (h Hosts) Admits(origins []string, host string) (ok, foreign bool) {
	if len(origins) == 0 || len(origins) == 1 && origins[0] == "" {
		return true, false
	}
	u, err := url.Parse(origins[0])
	switch {
	case err != nil || len(origins) > 1:
		return false, true
	case host != "" && strings.EqualFold(u.Host, host):
		return true, false
	}
	return h.Match(u.Host), true
}
