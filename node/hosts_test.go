package node_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func hostsOf(t *testing.T, patterns ...string) (node.Hosts, error) {
	t.Helper()
	list := make([]value.Value, len(patterns))
	for i, p := range patterns {
		list[i] = value.String(p)
	}
	config := value.Map(value.Field{Name: "hosts", Value: value.List(list...)})
	c, found := schema.Fields(schema.Strings("hosts")).Decode(schema.RawOf(config))
	if found.HasErrors() {
		t.Fatal(found)
	}
	return node.NewHosts(&node.Init{Config: c}, "hosts")
}

func TestHosts(t *testing.T) {
	h, err := hostsOf(t, "*.Shop.example", "localhost:*", "[[]::1]")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"www.shop.example": true, "a.b.SHOP.example": true, "shop.example": false, "www.shop.example:8443": false,
		"www.shop.example.": false, "www.shop.example.evil.example": false, "localhost:3000": true, "localhost": false, "[::1]": true, "": false,
	} {
		if got := h.Match(host); got != want {
			t.Errorf("%s: got %v", host, got)
		}
	}
	if _, err := hostsOf(t, "good", "[a"); err == nil || !strings.Contains(err.Error(), `"[a" is not a pattern of a host`) {
		t.Errorf("got %v", err)
	}
	if zero := (node.Hosts{}); !zero.IsZero() || zero.Match("a") || zero.Match("") {
		t.Error("the zero hosts match something")
	}
	for _, row := range []struct {
		origins     []string
		ok, foreign bool
	}{
		{nil, true, false},
		{[]string{""}, true, false},
		{[]string{"https://Here.example"}, true, false},
		{[]string{"https://www.shop.example"}, true, true},
		{[]string{"https://evil.example"}, false, true},
		{[]string{"https://here.example:1"}, false, true},
		{[]string{"null"}, false, true},
		{[]string{"://"}, false, true},
		{[]string{"https://here.example", "https://here.example"}, false, true},
	} {
		if ok, foreign := h.Admits(row.origins, "here.example"); ok != row.ok || foreign != row.foreign {
			t.Errorf("%q: got %v, foreign %v", row.origins, ok, foreign)
		}
	}
	if ok, _ := h.Admits([]string{"null"}, ""); ok {
		t.Error("a page without an origin was taken for one of a server without a name")
	}
}

// FuzzHosts compares patterns with what the words say of them.
func FuzzHosts(f *testing.F) {
	f.Add("*.example.com", "https://www.example.com")
	f.Add("*", "null")
	f.Add("[a-c].x", "https://b.x:80")
	f.Add("", "file://")
	f.Add("[", "https://[::1")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, origin string) {
		h, err := hostsOf(t, pattern)
		if _, bad := path.Match(pattern, ""); (bad != nil) != (err != nil) {
			t.Fatalf("got %v, want an error where there is %v", err, bad)
		}
		if err != nil {
			return
		}
		for _, host := range []string{origin, "www.example.com", ""} {
			got, lower, folded := h.Match(host), strings.ToLower(host), strings.ToLower(pattern)
			if host == "" && got != (pattern == "*") || pattern == "*" && !got {
				t.Errorf("%q, %q: got %v", pattern, host, got)
			}
			if !strings.ContainsAny(pattern, `*?[\`) && host != "" && got != (folded == lower) {
				t.Errorf("%q, %q: got %v", pattern, host, got)
			}
			if suffix, is := strings.CutPrefix(pattern, "*."); is && got && !strings.ContainsAny(suffix, `*?[\`) && !strings.HasSuffix(lower, "."+strings.ToLower(suffix)) {
				t.Errorf("%q matches %q", pattern, host)
			}
		}
		ok, foreign := h.Admits([]string{origin}, "here.example")
		u, err := url.Parse(origin)
		switch {
		case origin == "":
			if !ok || foreign {
				t.Errorf("no origin: got %v, foreign %v", ok, foreign)
			}
		case err != nil:
			if ok {
				t.Errorf("%q is not an origin", origin)
			}
		case ok != (h.Match(u.Host) || strings.EqualFold(u.Host, "here.example")):
			t.Errorf("%q, %q: got %v", pattern, origin, ok)
		}
		if ok, _ := h.Admits([]string{origin, origin}, "here.example"); ok {
			t.Error("several origins were taken")
		}
	})
}
