package mqtt

import (
	"slices"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/value"
)

// User properties become a header and an id, and those become the same user properties.
func TestHeader(t *testing.T) {
	user := []packets.User{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}, {Key: "b", Value: ""}, {Key: "id", Value: "m1"}}
	header, id := headerValue(user)
	if got, want := header.String(), `{"a":"1","b":["2",""],"id":"m1"}`; got != want || id != "m1" {
		t.Errorf("got %s with the id %q, want %s", got, id, want)
	}
	if back, err := userOf(header, id); err != nil || !slices.Equal(back, user) {
		t.Errorf("got %v, %v, want %v", back, err, user)
	}
	if header, id := headerValue(nil); !header.IsNull() || id != "" {
		t.Errorf("without any: got %s, %q", header, id)
	}
	if back, err := userOf(value.Null(), ""); err != nil || len(back) > 0 {
		t.Errorf("of nothing: got %v, %v", back, err)
	}
}

func TestHeaderRefused(t *testing.T) {
	one := func(name, text string) value.Value {
		return value.Map(value.Field{Name: name, Value: value.String(text)})
	}
	for name, header := range map[string]value.Value{
		"a list": value.List(), "NUL": one("a", "\x00"), "not UTF-8": one("\xff", "a"), "long": one("a", strings.Repeat("x", longest+1)),
	} {
		if user, err := userOf(header, ""); err == nil {
			t.Errorf("%s: got %d properties", name, len(user))
		}
	}
	if _, err := userOf(value.Null(), "a\x00"); err == nil {
		t.Error("an id with NUL is taken")
	}
}

// FuzzHeader has user properties survive the way through a workflow, except for their order among
// those of other names.
func FuzzHeader(f *testing.F) {
	f.Add("a", "1", "b", "2")
	f.Add("a", "1", "a", "")
	f.Add("id", "m", "id", "n")
	f.Fuzz(func(t *testing.T, name1, text1, name2, text2 string) {
		user := []packets.User{{Key: name1, Value: text1}, {Key: name2, Value: text2}}
		header, _ := headerValue(user)
		back, err := userOf(header, "")
		valid := isText(name1) && isText(text1) && isText(name2) && isText(text2)
		if (err == nil) != valid || valid && !slices.Equal(back, user) {
			t.Errorf("%q: got %q, %v", user, back, err)
		}
	})
}
