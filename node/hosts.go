package node

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
)

// Hosts are patterns of hosts, such as *.example.com, which does not match example.com.
// "*" matches everything. The zero Hosts match nothing. They are immutable.
type Hosts struct{ patterns []string }

// NewHosts reads the patterns of a field, which is a list of strings.
func NewHosts(init *Init, field string) (Hosts, error) {
	c := init.Config
	var h Hosts
	for _, pattern := range c.Strings(field) {
		if _, err := path.Match(pattern, ""); err != nil {
			return Hosts{}, c.Errorf(field, diag.CodeBadValue, "%q is not a pattern of a host: %v", pattern, err).WithHint("write one such as *.example.com")
		}
		if host := hostIn(pattern); host != pattern {
			init.AddWarning(c.Errorf(field, diag.CodeNoEffect, "%q is not a host, so it matches none", pattern).WithHint("write %s", host))
		}
		h.patterns = append(h.patterns, strings.ToLower(pattern))
	}
	return h, nil
}

// hostIn returns the host of a URL; of other texts, what is in front of a slash.
func hostIn(text string) string {
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text = rest
	}
	host, _, _ := strings.Cut(text, "/")
	return host
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
