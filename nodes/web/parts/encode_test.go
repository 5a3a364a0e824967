package parts

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/format/sse"
	"github.com/uniflow-labs/uniflow/value"
)

// FuzzAppendEvent checks that what a listener sends is what sse_source reads.
func FuzzAppendEvent(f *testing.F) {
	f.Add("a\r\nb\rc\n", "name", "7")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, data, name, id string) {
		v := value.Map().With("data", value.String(data)).With("event", value.String(name)).With("id", value.String(id))
		sent, err := appendEvent(nil, v, "")
		if err != nil {
			if !strings.ContainsAny(name+id, "\r\n\x00") {
				t.Fatalf("%q: %v", v, err)
			}
			return
		}
		p := sse.NewReader(strings.NewReader(string(sent)), 1<<20)
		e, err := p.Next()
		if err != nil {
			t.Fatalf("%q: %v", sent, err)
		}
		if name == "" {
			name = "message"
		}
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		if string(e.Data) != want || e.Name != name {
			t.Fatalf("got %q %q, want %q %q", e.Name, e.Data, name, want)
		}
		if _, err := p.Next(); err == nil {
			t.Fatalf("%q is more than one event", sent)
		}
	})
}
