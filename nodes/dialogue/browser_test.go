package dialogue_test

import (
	"regexp"
	"strings"
	"testing"
)

// browserDocument counts the visits of a browser; /fail fails, /parts answers in parts.
const browserDocument = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: s}]}}
- {kind: session, name: s, init: {visits: 0}, ports: {out: [{name: load}]}}
- {kind: recall, name: load, ports: {out: [{name: count}]}}
- {kind: remember, name: count, set: {visits: "${session.visits + 1}"}, ports: {out: [{name: which}]}}
- {kind: switch, name: which, matches: [{when: 'input.path == "/fail"', port: 'out[0]'}, {when: 'input.path == "/parts"', port: 'out[1]'}, {when: 'true', port: 'out[2]'}],
   ports: {'out[0]': [{name: fail}], 'out[1]': [{name: parts}], 'out[2]': [{name: after}]}}
- {kind: throw, name: fail}
- {kind: pipe, name: parts, ports: {'out[0]': [{name: piece}], 'out[1]': [{name: after}]}}
- {kind: snippet, name: piece, language: text, code: piece, ports: {out: [{name: part}]}}
- {kind: emit, name: part}
- {kind: recall, name: after, ports: {out: [{name: body}]}}
- {kind: snippet, name: body, language: cel, code: string(session.visits)}
`

func TestBrowser(t *testing.T) {
	f := newFlow(t)
	f.Serve(browserDocument)
	get := func(path, cookie string) (body string, set []string) {
		t.Helper()
		var header []string
		if cookie != "" {
			header = append(header, "Cookie", cookie)
		}
		if path == "/parts" {
			header = append(header, "Accept", "text/event-stream")
		}
		reply := f.Request("GET", path, "", header...)
		return reply.Body, reply.Header["Set-Cookie"]
	}
	body, set := get("/", "")
	if body != "1" || len(set) != 1 {
		t.Fatalf("got %s, and cookies %q", body, set)
	}
	if want := regexp.MustCompile(`^session=[\w-]{75}; Path=/; Max-Age=95041; HttpOnly; SameSite=Lax$`); !want.MatchString(set[0]) {
		t.Errorf("got %s, want a match of %s", set[0], want)
	}
	cookie, _, _ := strings.Cut(set[0], ";")
	if body, set := get("/", "a=b; "+cookie); body != "2" || set != nil {
		t.Errorf("with the cookie: got %s, and cookies %q", body, set)
	}
	before, last := cookie[len(cookie)-2:len(cookie)-1], cookie[len(cookie)-1:]
	other := map[bool]string{true: "B", false: "A"}[before == "A"]
	for _, forged := range []string{"session=", "session=x", cookie[:len(cookie)-2] + other + last, cookie + "A", "session=" + strings.Repeat("A", 75), strings.Replace(cookie, "session", "Session", 1)} {
		if body, set := get("/", forged); body != "1" || len(set) != 1 || strings.HasPrefix(set[0], cookie) {
			t.Errorf("forged cookie %q: got %s, and cookies %q", forged, body, set)
		}
	}
	if body, _ := get("/", "session=x; "+cookie); body != "3" {
		t.Errorf("with another cookie of its name: got %s", body)
	}
	if _, set := get("/fail", ""); len(set) != 1 {
		t.Errorf("an error: got cookies %q", set)
	}
	get("/fail", cookie)
	if body, _ := get("/", cookie); body != "4" {
		t.Errorf("after an error: got %s, want 4", body)
	}
	if body, set := get("/parts", ""); !strings.Contains(body, "data: piece") || len(set) != 1 {
		t.Errorf("in parts: got %q, and cookies %q", body, set)
	}
	f.Load(browserDocument + "- {kind: nop, name: more}\n")
	if body, set := get("/", cookie); body != "5" || set != nil {
		t.Errorf("after a reload: got %s, and cookies %q", body, set)
	}
}
