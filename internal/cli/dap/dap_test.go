package dap

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-dap"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// FuzzSession gives an adapter that is not attached whatever an editor may send: it answers or ends, and does not panic.
func FuzzSession(f *testing.F) {
	for _, text := range []string{
		`{"seq":1,"type":"request","command":"initialize","arguments":{}}`, `{"seq":2,"type":"request","command":"attach","arguments":{}}`,
		`{"seq":3,"type":"request","command":"attach","arguments":7}`, `{"seq":4,"type":"request","command":"stackTrace","arguments":{"threadId":1}}`,
		`{"seq":5,"type":"request","command":"fly"}`, `{"seq":6,"type":"request","command":"disconnect"}`, `{`,
	} {
		var b bytes.Buffer
		if err := dap.WriteBaseMessage(&b, []byte(text)); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.Contains(in, []byte("address")) || bytes.Contains(in, []byte("specs")) {
			return // it must not connect, nor start a program
		}
		var out bytes.Buffer
		_ = serve(t.Context(), "none", bytes.NewReader(in), &out) // an error is an answer, too
		for rest := out.String(); rest != ""; {
			header, body, ok := strings.Cut(rest, "\r\n\r\n")
			if !ok || !strings.HasPrefix(header, "Content-Length: ") {
				t.Fatalf("wrote %q", rest)
			}
			_, rest, _ = strings.Cut(body, "Content-Length: ")
			if rest != "" {
				rest = "Content-Length: " + rest
			}
		}
	})
}

// TestNodeAt finds the node that has a line, in the file that the editor names otherwise than the program.
func TestNodeAt(t *testing.T) {
	s := &session{nodes: []api.Node{{Name: "a", File: "flows/a.yaml", Line: 3}, {Name: "b", File: "flows/a.yaml", Line: 9}, {Name: "c", File: "./c.yaml", Line: 1}, {Name: "d"}}}
	for _, c := range []struct {
		path string
		line int
		want string
	}{
		{"/home/me/flows/a.yaml", 3, "a"}, {"/home/me/flows/a.yaml", 8, "a"}, {"/home/me/flows/a.yaml", 100, "b"}, {"flows/a.yaml", 9, "b"},
		{"/home/me/flows/a.yaml", 2, ""}, {"/home/me/c.yaml", 5, "c"}, {"/home/me/other/a.yaml", 5, ""}, {"/home/me/myflows/a.yaml", 5, ""},
	} {
		got := ""
		if n := s.nodeAt(c.path, c.line); n != nil {
			got = n.Name
		}
		if got != c.want {
			t.Errorf("%s:%d: got %q, want %q", c.path, c.line, got, c.want)
		}
	}
}

func TestReplaced(t *testing.T) {
	v, err := value.ParseJSON([]byte(`{"a": [1, {"b": 2}], "c": 3}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":      `7`,
		"c":     `{"a":[1,{"b":2}],"c":7}`,
		"a 1 b": `{"a":[1,{"b":7}],"c":3}`,
		"a 0":   `{"a":[7,{"b":2}],"c":3}`,
	} {
		if got := replaced(v, strings.Fields(path), value.Int(7)).String(); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestBreakpoint(t *testing.T) {
	for _, c := range []struct {
		point, hits string
		after       int
		ok          bool
	}{
		{"", "", 0, true}, {"out[2]", ">= 3", 2, true}, {"error", "1", 0, true}, {"answer", "x", 0, false}, {"out[x]", "", 0, false}, {"in", "0", 0, false},
	} {
		b, err := breakpoint("id", c.point, "", c.hits)
		if (err == nil) != c.ok || err == nil && b.After != c.after {
			t.Errorf("%q, %q: got %+v, %v", c.point, c.hits, b, err)
		}
	}
}
