package client

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// errSource is the error of a source that [FromSource] cannot read. It does not quote it.
var errSource = errors.New("is not the URL of a server of Redis")

// FromSource reads a text that says all of how to connect, as databases have it: its credentials
// and the number of its database are in the URL. The server of a cluster finds the others. The
// authorities that the system trusts sign certificates.
func FromSource(text string) (*Settings, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errSource // that of the library quotes it
	}
	s := new(Settings)
	if u.User != nil {
		s.user = u.User.Username()
		s.password, _ = u.User.Password()
	}
	if number := strings.Trim(u.Path, "/"); number != "" {
		if s.database, err = strconv.Atoi(number); err != nil || s.database < 0 {
			return nil, errSource
		}
	}
	if u.Scheme == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errSource
	}
	plain := url.URL{Scheme: u.Scheme, Host: u.Host}
	address, secure, problem := parseURL(plain.String())
	if problem != "" {
		return nil, errSource
	}
	s.addresses, s.secure = []string{address}, secure
	return s, nil
}
