package request_test

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

func parse(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestComplete(t *testing.T) {
	f := func(given, want string) {
		t.Helper()
		got, err := request.Complete(parse(t, given))
		if err != nil || !got.Equal(parse(t, want)) {
			t.Errorf("%s: got %v, error %v, want %s", given, got, err, want)
		}
	}
	f(`null`, `{"method":"GET","scheme":"http","host":"localhost","path":"/","query":{},"protocol":"HTTP/1.1","header":{},"remote":"127.0.0.1","body":null}`)
	f(`{"path":"/a%20b?x=1&x=2&y","header":{"x-key":"k","Accept":["a","b"]},"params":{"id":"7"}}`,
		`{"method":"GET","scheme":"http","host":"localhost","path":"/a b","query":{"x":["1","2"],"y":[""]},"protocol":"HTTP/1.1",
		  "header":{"X-Key":["k"],"Accept":["a","b"]},"remote":"127.0.0.1","body":null,"params":{"id":"7"}}`)
	f(`{"body":{"a":1},"query":{"limit":2,"tag":["x","&"],"none":null}}`,
		`{"method":"POST","scheme":"http","host":"localhost","path":"/","query":{"limit":["2"],"tag":["x","&"]},"protocol":"HTTP/1.1",
		  "header":{"Content-Type":["application/json"]},"remote":"127.0.0.1","body":{"a":1}}`)
	f(`{"body":"text","method":"PUT","remote":"::1","scheme":"https","host":"h:1","protocol":"HTTP/2.0","header":{"content-type":"text/csv"},"id":"i"}`,
		`{"method":"PUT","scheme":"https","host":"h:1","path":"/","query":{},"protocol":"HTTP/2.0",
		  "header":{"Content-Type":["text/csv"]},"remote":"::1","body":"text","id":"i"}`)
}

func TestCompleteMistakes(t *testing.T) {
	f := func(given string, want ...string) {
		t.Helper()
		_, err := request.Complete(parse(t, given))
		if err == nil {
			t.Fatalf("%s: got no error, want %v", given, want)
		}
		if got := strings.Split(err.Error(), "\n"); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s: got %q, want %q", given, got, want)
		}
	}
	f(`5`, "want a map with method, path, query, header and body, got integer")
	f(`{"path":"ping","method":5}`, "method: want text, got integer", `path: want one such as /orders?limit=2, got "ping"`)
	f(`{"path":"/100%","host":""}`, `path: parse "/100%": invalid URL escape "%"; %25 stands for %`, "host: is empty")
	f(`{"path":"","query":5}`, "path: is empty")
	f(`{"path":"/a?b=1","query":{"b":"2"}}`, "the path has a query, and there is a field query: leave out one of them")
	f(`{"query":{"a":{}},"header":[]}`, "header is a list: want a map", `query "a" is a map: want a string or a list of strings`)
	f(`{"query":"a=1"}`, "query: want a map, got string")
}
