package tabular

import (
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestLargeIntegers reads integers that neither an integer of 64 bits nor a number
// holds: none becomes another one, whatever form they come in.
func TestLargeIntegers(t *testing.T) {
	const (
		most  = "18446744073709551615"
		next  = "18446744073709551614"
		whole = "18446744073709551616"   // 2^64, which is a number
		shown = "1.8446744073709552e+19" // as numbers are shown
		past  = "9007199254740993"       // 2^53 + 1
	)
	csv := func(values ...string) string {
		text := "user,time,event,k\n"
		for _, v := range values {
			text += "u,2026-01-05,view," + v + "\n"
		}
		return file(t, "x.csv", text)
	}
	ndjson := func(values ...string) string {
		text := ""
		for _, v := range values {
			text += `{"user":"u","time":"2026-01-05","event":"view","k":` + v + "}\n"
		}
		return file(t, "x.ndjson", text)
	}
	asString := Options{Types: map[string]event.Type{"k": event.String}}
	asNumber := Options{Types: map[string]event.Type{"k": event.Float}}
	knownNumber := Options{Known: event.Schema{{Name: "k", Type: event.Float}}}
	const large = `is an integer that a number cannot hold exactly`
	late := make([]string, sampleRows+1) // the types are decided before the last
	for i := range late {
		late[i] = "1"
	}
	after := func(value, first string) string {
		late[0], late[sampleRows] = first, value
		return csv(late...)
	}
	for _, c := range []struct {
		path string
		opt  Options
		typ  string
		want []string // of the last rows: values, or reasons after a !
	}{
		{csv(most, next), Options{}, "string", []string{most, next}},
		{csv(past, "0.5"), Options{}, "string", []string{past, "0.5"}},
		{csv("0.5", past), Options{}, "string", []string{"0.5", past}},
		{csv("0.5", whole), Options{}, "number", []string{"0.5", shown}},
		{csv(past, next), asString, "string", []string{past, next}},
		{csv("1", past), asNumber, "number", []string{"1", "!" + large}},
		{csv(past), knownNumber, "number", []string{"!" + large}},
		{csv("1", "0.5"), knownNumber, "number", []string{"1", "0.5"}},
		{after(most, "1"), Options{}, "integer", []string{"!is an integer of more than 64 bits"}},
		{after(past, "0.5"), Options{}, "number", []string{"!" + large}},

		{ndjson(most, next), Options{}, "", []string{"!" + large, "!" + large}},
		{ndjson(past, "0.5", "7"), Options{}, "integer", []string{past, "7", "!has integers that a number cannot hold exactly"}},
		{ndjson("0.5", past, "7"), Options{}, "number", []string{"0.5", "7", "!" + large}},
		{ndjson("7", "0.5", whole, "1e300"), Options{}, "number", []string{"7", "0.5", shown}},
		{ndjson(most, next), asString, "string", []string{most, next}},
		{ndjson(past, "7"), knownNumber, "number", []string{"7", "!" + large}},
		{ndjson(past, "7"), asNumber, "number", []string{"7", "!" + large}},
	} {
		for _, batch := range []int{1, 1000} {
			got := dump(t, c.path, c.opt, batch)
			if c.typ != "" && !strings.HasPrefix(got, "k:"+c.typ+" ") {
				t.Errorf("%v: got %.200s, want the type %s", c.want, got, c.typ)
			}
			for _, want := range c.want {
				reason, bad := strings.CutPrefix(want, "!")
				switch {
				case bad && strings.Contains(got, "\n! ") && strings.Contains(got, reason):
				case !bad && strings.Contains(got+"\n", " k="+want+"\n"):
				default:
					t.Errorf("batches of %d: got %.300s, want %q in it", batch, got, want)
				}
			}
		}
	}
}

// TestLargeIntegersOfEvents is the same of single events.
func TestLargeIntegersOfEvents(t *testing.T) {
	line := func(k string) []byte { return []byte(`{"user":"u","time":"2026-01-05","event":"view","k":` + k + `}`) }
	known := Options{Known: event.Schema{{Name: "k", Type: event.Float}}}
	for _, c := range []struct {
		k    string
		opt  Options
		want string
	}{
		{"18446744073709551615", Options{}, "as a string it can be kept"},
		{"9007199254740993", known, "as a string it can be kept"},
		{"9007199254740993", Options{}, ""},
		{"9007199254740992", known, ""},
		{"18446744073709551616", Options{}, ""},
	} {
		e, err := parseEvent(line(c.k), c.opt)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v and %v, want %q", c.k, e, err, c.want)
		}
		if err != nil {
			continue
		}
		if v := e.Properties[0].Value; v.Type() == event.Int && v.String() != c.k || v.Type() == event.Float && strconv.FormatFloat(v.Float(), 'f', 0, 64) != c.k {
			t.Errorf("got %v, want %s", v, c.k)
		}
	}
}
