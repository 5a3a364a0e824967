package core

import (
	"net/netip"
	"strings"

	"github.com/uniflow-labs/uniflow/value"
)

// counted returns what a key counts as: an address of IPv6 in it as a network with so many
// bits, and one of IPv4 that is written as one of IPv6 as what it is.
func counted(v value.Value, bits int) value.Value {
	if !hasAddress(v) {
		return v
	}
	switch v.Kind() {
	case value.KindString:
		text, _ := v.AsString()
		addr, _ := longAddress(text)
		if addr = addr.Unmap(); addr.Is4() {
			return value.String(addr.String())
		}
		network, _ := addr.Prefix(bits) // never fails: bits are at most 128
		return value.String(network.String())
	case value.KindList:
		elems := make([]value.Value, 0, v.Len())
		for _, e := range v.Elems() {
			elems = append(elems, counted(e, bits))
		}
		return value.List(elems...)
	case value.KindMap:
		fields := make([]value.Field, 0, v.Len())
		for name, e := range v.Fields() {
			fields = append(fields, value.Field{Name: name, Value: counted(e, bits)})
		}
		return value.UniqueMap(fields)
	}
	return v
}

// hasAddress reports whether a text of a value is an address that is written as one of IPv6.
func hasAddress(v value.Value) bool {
	switch v.Kind() {
	case value.KindString:
		text, _ := v.AsString()
		_, ok := longAddress(text)
		return ok
	case value.KindList:
		for _, e := range v.Elems() {
			if hasAddress(e) {
				return true
			}
		}
	case value.KindMap:
		for _, e := range v.Fields() {
			if hasAddress(e) {
				return true
			}
		}
	}
	return false
}

// maxAddress is the length of the longest text that is an address, with a zone.
const maxAddress = 64

func longAddress(text string) (netip.Addr, bool) {
	if len(text) > maxAddress || strings.Count(text, ":") < 2 {
		return netip.Addr{}, false
	}
	digits, _, _ := strings.Cut(text, "%")
	if strings.Trim(digits, "0123456789abcdefABCDEF:.") != "" { // an error of ParseAddr costs more
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(text)
	return addr, err == nil
}
