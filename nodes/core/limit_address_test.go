package core

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

// TestCounted has keys with addresses, and such that only look like them.
func TestCounted(t *testing.T) {
	f := func(key string, bits int, want string) {
		t.Helper()
		v, err := value.ParseJSON([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		if got := counted(v, bits); string(must(t)(got.AppendJSON(nil))) != want {
			t.Errorf("%s by %d: got %s, want %s", key, bits, got, want)
		}
	}
	f(`"2001:db8:1:2:3:4:5:6"`, 64, `"2001:db8:1:2::/64"`)
	f(`"2001:DB8:1:2::1"`, 64, `"2001:db8:1:2::/64"`)
	f(`"2001:db8:1:2::1"`, 48, `"2001:db8:1::/48"`)
	f(`"2001:db8:1:2:0::1"`, 128, `"2001:db8:1:2::1/128"`)
	f(`"fe80::1%eth0"`, 64, `"fe80::/64"`)
	f(`"::1"`, 64, `"::/64"`)
	f(`"::ffff:192.0.2.1"`, 64, `"192.0.2.1"`)
	f(`"::ffff:c000:201"`, 64, `"192.0.2.1"`)
	f(`"192.0.2.1"`, 64, `"192.0.2.1"`)
	f(`"[2001:db8::1]:80"`, 64, `"[2001:db8::1]:80"`)
	f(`"2001:db8::1/64"`, 64, `"2001:db8::1/64"`)
	f(`"user:7"`, 64, `"user:7"`)
	f(`"::%`+strings.Repeat("a", 64)+`"`, 64, `"::%`+strings.Repeat("a", 64)+`"`)
	f(`["2001:db8::1", "/orders", 1]`, 64, `["2001:db8::/64","/orders",1]`)
	f(`{"remote": "2001:db8::1", "more": ["::ffff:10.0.0.1"]}`, 64, `{"remote":"2001:db8::/64","more":["10.0.0.1"]}`)
	f(`7`, 64, `7`)
	f(`null`, 64, `null`)
}

func must(t *testing.T) func([]byte, error) []byte {
	return func(data []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
}

// TestCountedAllocs counts for keys that are not IPv6 addresses.
func TestCountedAllocs(t *testing.T) {
	keys := []value.Value{value.String("192.0.2.1"), value.String("user:7"), value.String("urn:isbn:7"), value.Int(7), value.List(value.String("192.0.2.1"), value.String("/orders"))}
	if got := testing.AllocsPerRun(100, func() {
		for _, key := range keys {
			counted(key, 64)
		}
	}); got > 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

// FuzzCounted looks for an address that counts as another one of its network does not, and
// for another text that changes.
func FuzzCounted(f *testing.F) {
	for _, text := range []string{"", ":", "::", "2001:db8::1", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3.4", "a:b", "::1/64"} {
		f.Add(text, uint8(64), uint64(7))
	}
	f.Fuzz(func(t *testing.T, text string, bits uint8, other uint64) {
		bits = bits%128 + 1
		got := counted(value.String(text), int(bits))
		addr, err := netip.ParseAddr(text)
		switch {
		case err != nil || len(text) > maxAddress || !strings.Contains(text, ":"):
			if !got.Equal(value.String(text)) {
				t.Errorf("%q: got %s", text, got)
			}
		case addr.Unmap().Is4():
			if !got.Equal(value.String(addr.Unmap().String())) {
				t.Errorf("%q: got %s", text, got)
			}
		default:
			bytes := addr.As16()
			for i := range 8 { // another address of the network
				if 8*(8+i) >= int(bits) {
					bytes[8+i] ^= byte(other >> (8 * i))
				}
			}
			if next := netip.AddrFrom16(bytes); !next.Is4In6() && !got.Equal(counted(value.String(next.String()), int(bits))) {
				t.Errorf("%q and %s count as %s and another", text, next, got)
			}
		}
	})
}
