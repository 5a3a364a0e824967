package httpclient

import (
	"context"
	"net/netip"
	"syscall"
)

// A deniedError is an address that egress: public does not allow.
type deniedError struct{ address string }

func (e *deniedError) Error() string {
	return "egress: public does not allow connections to " + e.address
}

// denyPrivate refuses connections to addresses that are not public. It is called with
// each address that a name stands for, right before the connection is made, so that a
// second answer of the name server cannot replace the one that was checked.
func denyPrivate(_ context.Context, network, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" || !isPublic(addr.Addr()) {
		return &deniedError{address}
	}
	return nil
}

func prefixes(list ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, s := range list {
		all[i] = netip.MustParsePrefix(s)
	}
	return all
}

var (
	// notPublic are the blocks that are not globally reachable, by the registries of
	// IANA for special purposes, in addition to what package netip knows.
	notPublic = prefixes(
		"0.0.0.0/8",        // this network
		"100.64.0.0/10",    // shared by the customers of a carrier; metadata of Alibaba
		"192.0.0.0/24",     // assignments of the IETF; metadata of Oracle
		"192.0.2.0/24",     // documentation
		"192.88.99.0/24",   // relays of 6to4
		"198.18.0.0/15",    // benchmarks
		"198.51.100.0/24",  // documentation
		"203.0.113.0/24",   // documentation
		"240.0.0.0/4",      // reserved, broadcast
		"168.63.129.16/32", // the host of a machine of Azure
		"2001::/23",        // assignments of the IETF: Teredo, ORCHID, benchmarks
		"2001:db8::/32",    // documentation
		"3fff::/20",        // documentation
	)
	globalV6 = netip.MustParsePrefix("2000::/3") // all that is assigned

	// Blocks of IPv6 with an address of IPv4 in them, and where it begins.
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// isPublic reports whether an address is one that anybody on the internet may have.
func isPublic(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	if a.Is6() {
		b := a.As16()
		switch {
		case nat64.Contains(a):
			return isPublic(netip.AddrFrom4([4]byte(b[12:16])))
		case sixToFour.Contains(a):
			return isPublic(netip.AddrFrom4([4]byte(b[2:6])))
		case !globalV6.Contains(a):
			return false
		}
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
