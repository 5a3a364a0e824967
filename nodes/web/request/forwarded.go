package request

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/schema"
)

// maxHops is how many proxies are read, from the last one back. A header may name
// thousands.
const maxHops = 64

// Proxies are the addresses of proxies whose headers about a client are believed.
type Proxies []netip.Prefix

func (l Proxies) has(a netip.Addr) bool {
	return slices.ContainsFunc(l, func(p netip.Prefix) bool { return p.Contains(a) })
}

// NewProxies reads the proxies of a field, which is a list of strings.
func NewProxies(c schema.Config, field string) (l Proxies, err error) {
	for _, text := range c.Strings(field) {
		p, err := parseProxy(text)
		if err != nil {
			return nil, c.Errorf(field, diag.CodeBadValue, "%q is neither an address nor a range of addresses", text).WithHint("write one such as 10.0.0.0/8 or 192.0.2.1")
		}
		l = append(l, p)
	}
	return l, nil
}

// parseProxy parses an address, or a range such as 10.0.0.0/8.
func parseProxy(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if a := p.Addr(); err == nil && a.Is4In6() { // as clean returns the addresses in it
		if p.Bits() < 96 {
			return p, errors.New("a range of both IPv4 and IPv6")
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), err
}

// forwarded returns where a request came from that a peer has passed on. If the peer is one
// of the proxies, X-Forwarded-For is read from its end: the first address that is not one of
// them is the client, as all before it may be forged. Forwarded is read the same way. A proxy
// sets one of the two and may pass on the other as a client has forged it: if they name
// different clients, both are ignored.
func (l Proxies) forwarded(o Origin, h http.Header) Origin {
	peer, err := netip.ParseAddr(o.Remote)
	if err != nil || !l.has(clean(peer)) {
		return o
	}
	remote, scheme, host := o.Remote, last(h["X-Forwarded-Proto"]), last(h["X-Forwarded-Host"])
	fors, standard := h["X-Forwarded-For"], h["Forwarded"]
	if len(fors) > 0 {
		remote, _ = l.client(remote, backwards(fors))
	}
	if len(standard) > 0 {
		list, ok := parseForwarded(standard)
		if !ok {
			return o
		}
		named, hops := l.client(o.Remote, func(yield func(string) bool) {
			for _, hop := range slices.Backward(list) {
				if !yield(hop.client) {
					return
				}
			}
		})
		switch {
		case len(fors) > 0 && named != remote:
			return o
		case len(fors) == 0:
			remote, scheme, host = named, "", ""
			if hops > 0 {
				scheme, host = list[len(list)-hops].proto, list[len(list)-hops].host
			}
		}
	}
	o.Remote = remote
	if s := strings.ToLower(scheme); s == "http" || s == "https" {
		o.Scheme = s
	}
	if host != "" && len(host) <= maxHost && httpguts.ValidHostHeader(host) {
		o.Host = host
	}
	return o
}

// maxHost is the longest host and port that is believed, in bytes.
const maxHost = 260

// client returns the client that the hops name, the last proxy first, and how many of them
// are believed. Without any, it is the peer.
func (l Proxies) client(peer string, hops func(yield func(string) bool)) (client string, believed int) {
	for hop := range hops {
		a, ok := parseHop(hop)
		if !ok || believed == maxHops {
			break
		}
		peer = a.String()
		believed++
		if !l.has(a) {
			break
		}
	}
	return peer, believed
}

// parseHop parses an address, with or without a port.
func parseHop(s string) (a netip.Addr, ok bool) {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		withPort, portErr := netip.ParseAddrPort(s)
		if portErr != nil {
			return netip.Addr{}, false
		}
		a = withPort.Addr()
	}
	return clean(a), true
}

// clean returns an address as ranges contain it: IPv4 as such, and without a zone.
func clean(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// backwards returns the items of headers that are lists, the last one first.
func backwards(lines []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for more := true; more; {
				item := line
				i := strings.LastIndexByte(line, ',')
				if more = i >= 0; more {
					line, item = line[:i], line[i+1:]
				}
				if !yield(strings.TrimSpace(item)) {
					return
				}
			}
		}
	}
}

// last returns the last item of headers that are lists, which the last proxy has added.
func last(lines []string) string {
	for item := range backwards(lines) {
		return item
	}
	return ""
}

// A forwardedHop is one element of a Forwarded header (RFC 7239).
type forwardedHop struct{ client, proto, host string }

// parseForwarded parses Forwarded headers. ok is false if they are malformed, or have more
// than maxHops elements.
func parseForwarded(lines []string) (list []forwardedHop, ok bool) {
	for _, rest := range lines {
		for end := byte(','); end == ','; {
			if len(list) == maxHops {
				return nil, false
			}
			var hop forwardedHop
			if hop, rest, end, ok = parseForwardedHop(rest); !ok {
				return nil, false
			}
			list = append(list, hop)
		}
	}
	return list, true
}

// parseForwardedHop parses an element, and returns what follows the comma after it, if end
// is a comma.
func parseForwardedHop(s string) (hop forwardedHop, rest string, end byte, ok bool) {
	for {
		name, text, found := strings.Cut(s, "=")
		if name = strings.ToLower(strings.TrimSpace(name)); !found || !envelope.ValidToken(name) {
			return hop, "", 0, false
		}
		var v string
		if v, rest, end, ok = forwardedValue(text); !ok {
			return hop, "", 0, false
		}
		switch name {
		case "for":
			hop.client = v
		case "proto":
			hop.proto = v
		case "host":
			hop.host = v
		}
		if end != ';' {
			return hop, rest, end, true
		}
		s = rest
	}
}

// forwardedValue parses a token or a quoted string, up to a semicolon, a comma or the end,
// for which end is 0.
func forwardedValue(s string) (v, rest string, end byte, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		i := strings.IndexAny(s, ",;")
		if i < 0 {
			return strings.TrimSpace(s), "", 0, true
		}
		return strings.TrimSpace(s[:i]), s[i+1:], s[i], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c == '"':
			switch rest = strings.TrimLeft(s[i+1:], " \t"); {
			case rest == "":
				return b.String(), "", 0, true
			case rest[0] == ',' || rest[0] == ';':
				return b.String(), rest[1:], rest[0], true
			}
			return "", "", 0, false
		default:
			b.WriteByte(c)
		}
	}
	return "", "", 0, false
}
