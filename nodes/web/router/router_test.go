package router

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// newTable makes a table of lines such as "GET /users/:id"; the port of each is
// its index.
func newTable(t testing.TB, lines ...string) *Table {
	t.Helper()
	table := NewTable()
	for i, line := range lines {
		method, path, _ := strings.Cut(line, " ")
		if err := table.Add(newRoute(method, path, i, "")); err != nil {
			t.Fatalf("route %s: %v", line, err)
		}
	}
	return table
}

// lookUp returns "PORT name=value …", or "none".
func (t *Table) lookUp(method, path string, escaped bool) string {
	s := Search{Path: path, Escaped: escaped, Method: method}
	r := t.Find(&s)
	if r == nil {
		return "none"
	}
	return r.show(&s)
}

func (r *Route) show(s *Search) string {
	out := fmt.Sprint(r.Port)
	for i, name := range r.names {
		out += fmt.Sprintf(" %s=%q", name, s.param(i))
	}
	return out
}

func TestRoutes(t *testing.T) {
	table := newTable(t,
		"GET /",                                // 0
		"GET /ping",                            // 1
		"GET /users/:id",                       // 2
		"GET /users/new",                       // 3
		"POST /users/:name",                    // 4
		"GET /users/:id/books",                 // 5
		"GET /users/:who/boats",                // 6
		"GET /static/*",                        // 7
		"GET /files/*path/info",                // 8
		"GET /files/*",                         // 9
		"GET /a/:x/c",                          // 10
		"GET /a/b/d",                           // 11
		"GET /caf%C3%A9",                       // 12
		`GET /v1/\:batch`,                      // 13
		"GET /x/*l/y/*r",                       // 14
		"GET /slash/",                          // 15
		"GET /a%2Fb/c",                         // 16
		`GET /star/\*`,                         // 17
		"GET /m/:a/:b/:c/:d/:e/:f/:g/:h/:i/:j", // 18
		"HEAD /users/:head/boats",              // 19
	)
	f := func(method, path, want string) {
		t.Helper()
		if got := table.lookUp(method, path, true); got != want {
			t.Errorf("%s %s: got %s, want %s", method, path, got, want)
		}
	}
	f("GET", "/", "0")
	f("GET", "", "none")
	f("GET", "*", "none")
	f("GET", "//", "none")
	f("GET", "/ping", "1")
	f("GET", "/ping/", "none")
	f("GET", "/Ping", "none")
	f("GET", "/%70ing", "1")
	f("GET", "/users/1", `2 id="1"`)
	f("GET", "/users/", "none")
	f("GET", "/users/a/b", "none")
	f("GET", "/users/new", "3")
	f("HEAD", "/users/new", "3")
	f("POST", "/users/new", `4 name="new"`)
	f("GET", "/users/:x", `2 id=":x"`)
	f("GET", "/users/%3Ax", `2 id=":x"`)
	f("GET", "/users/*", `2 id="*"`)
	f("GET", "/users/a%2Fb", `2 id="a/b"`)
	f("GET", "/users/%C3%A4%zz", `2 id="%C3%A4%zz"`)
	f("GET", "/users/7/books", `5 id="7"`)
	f("GET", "/users/7/boats", `6 who="7"`)
	f("HEAD", "/users/7/boats", `19 head="7"`)
	f("GET", "/users/new/boats", `6 who="new"`)
	f("GET", "/static/*", `7 *="*"`)
	f("GET", "/static/%2A", `7 *="*"`)
	f("GET", "/static/", `7 *=""`)
	f("GET", "/static", "none")
	f("GET", "/static/a/b//c", `7 *="a/b//c"`)
	f("GET", "/files/a/b/info", `8 path="a/b"`)
	f("GET", "/files/a/info/b/info", `8 path="a/info/b"`)
	f("GET", "/files/a/info/b", `9 *="a/info/b"`)
	f("GET", "/files/info", `9 *="info"`)
	f("GET", "/files//info", `8 path=""`)
	f("GET", "/a/b/c", `10 x="b"`)
	f("GET", "/a/b/d", "11")
	f("GET", "/caf%C3%A9", "12")
	f("GET", "/v1/:batch", "13")
	f("GET", "/x/1/y/2/y/3", `14 l="1/y/2" r="3"`)
	f("GET", "/x/1/y/", `14 l="1" r=""`)
	f("GET", "/slash/", "15")
	f("GET", "/slash", "none")
	f("GET", "/a%2Fb/c", "16")
	f("GET", "/star/*", "17")
	f("GET", "/star/a", "none")
	f("GET", "/m/1/2/3/4/5/6/7/8/9/10", `18 a="1" b="2" c="3" d="4" e="5" f="6" g="7" h="8" i="9" j="10"`)
	f("get", "/ping", "none")
	f("DELETE", "/ping", "none")

	if got := table.lookUp("GET", "/a/b/c", false); got != `10 x="b"` {
		t.Errorf("decoded path: got %s", got)
	}
	if got := table.lookUp("GET", "/users/50%", false); got != `2 id="50%"` {
		t.Errorf("decoded path: got %s", got)
	}
	m := func(path, want string) {
		t.Helper()
		if got := strings.Join(table.methods(path, true), ", "); got != want {
			t.Errorf("methods of %s: got %q, want %q", path, got, want)
		}
	}
	m("/users/new", "GET, HEAD, OPTIONS, POST")
	m("/users/7/boats", "GET, HEAD, OPTIONS")
	m("/files/x/info", "GET, HEAD, OPTIONS")
	m("/nowhere", "")
}

func TestRestAlone(t *testing.T) {
	table := newTable(t, "GET /*all", "GET /:one/x")
	for path, want := range map[string]string{"/": `0 all=""`, "/a": `0 all="a"`, "/a/x": `1 one="a"`, "/a/x/": `0 all="a/x/"`} {
		if got := table.lookUp("GET", path, true); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// TestManyRests uses more rests in the middle than a search holds without allocation,
// and a path on which naive backtracking would take years.
func TestManyRests(t *testing.T) {
	path := "GET "
	for i := range 12 {
		path += fmt.Sprintf("/*r%d/a", i)
	}
	table := newTable(t, path+"/end", "POST "+strings.TrimPrefix(path, "GET "))
	long := strings.Repeat("/a", 30000)
	if got := table.lookUp("GET", long, true); got != "none" {
		t.Errorf("got %.100s, want none", got)
	}
	if got := table.lookUp("POST", long, true); !strings.HasPrefix(got, "1 ") || !strings.HasSuffix(got, ` r11="a"`) {
		t.Errorf("got %.100s, want route 1", got)
	}
	if got := table.methods(long, true); !slices.Equal(got, []string{"OPTIONS", "POST"}) {
		t.Errorf("methods: got %v", got)
	}
}

func TestBadRoutes(t *testing.T) {
	f := func(want string, lines ...string) {
		t.Helper()
		table := NewTable()
		var err error
		for _, line := range lines {
			method, path, _ := strings.Cut(line, " ")
			err = errors.Join(err, table.Add(newRoute(method, path, 0, "test.yaml:1:2")))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", lines, err, want)
		}
	}
	f("does not start with a slash", "GET ping")
	f("does not start with a slash", "GET ")
	f(`":" is not a parameter`, "GET /:")
	f(`":a.b" is not a parameter`, "GET /:a.b")
	f(`"*.js" is not a parameter`, "GET /*.js")
	f("inside a segment", "GET /a:b")
	f("inside a segment", "GET /a*")
	f("two parameters called", "GET /:a/:a")
	f("backslash", `GET /a\b`)
	f("backslash", `GET /a\`)
	f("invalid URL escape", "GET /100%")
	f("route GET /a/:y is the same as GET /a/:x at test.yaml:1:2", "GET /a/:x", "GET /a/:y")
	f("is the same as", "GET /a/*", "GET /a/*x")
	f("is the same as", "GET /a", "GET /%61")
}

// naive matches one route by trying everything, segment by segment.
func naive(route, path []string, names *[]string) bool {
	if len(route) == 0 {
		return len(path) == 0
	}
	switch {
	case strings.HasPrefix(route[0], "*"):
		for n := len(path); n >= 1; n-- {
			*names = append(*names, strings.Join(path[:n], "/"))
			if naive(route[1:], path[n:], names) {
				return true
			}
			*names = (*names)[:len(*names)-1]
		}
		return false
	case len(path) == 0:
		return false
	case strings.HasPrefix(route[0], ":"):
		if path[0] == "" {
			return false
		}
		*names = append(*names, path[0])
		if naive(route[1:], path[1:], names) {
			return true
		}
		*names = (*names)[:len(*names)-1]
		return false
	}
	return route[0] == path[0] && naive(route[1:], path[1:], names)
}

// TestRoutesAgainstNaive compares with a matcher that knows nothing of
// preference: the route that is found must match, with these parameters.
func TestRoutesAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	routeParts := []string{"a", "b", ":", "*"}
	pathParts := []string{"a", "b", "c", ""}
	draw := func(parts []string, n int, unique bool) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = parts[rng.IntN(len(parts))]
			if unique && (list[i] == ":" || list[i] == "*") {
				list[i] += fmt.Sprintf("p%d", i)
			}
		}
		return list
	}
	for range 20000 {
		var lines []string
		var routes [][]string
		for range 1 + rng.IntN(5) {
			r := draw(routeParts, 1+rng.IntN(5), true)
			line := "GET /" + strings.Join(r, "/")
			table := NewTable()
			for _, old := range append(lines, line) { // without those that conflict
				_, path, _ := strings.Cut(old, " ")
				if table.Add(newRoute("GET", path, 0, "")) != nil {
					line = ""
				}
			}
			if line != "" {
				lines, routes = append(lines, line), append(routes, r)
			}
		}
		table := newTable(t, lines...)
		for range 5 {
			path := draw(pathParts, 1+rng.IntN(7), false)
			got := table.lookUp("GET", "/"+strings.Join(path, "/"), false)
			matches := []string{}
			for i, r := range routes {
				var values []string
				if !naive(r, path, &values) {
					continue
				}
				match := fmt.Sprint(i)
				for _, part := range r {
					if part[0] == ':' || part[0] == '*' {
						match += fmt.Sprintf(" %s=%q", part[1:], values[0])
						values = values[1:]
					}
				}
				matches = append(matches, match)
			}
			if len(matches) == 0 {
				matches = append(matches, "none")
			}
			if !slices.Contains(matches, got) {
				t.Fatalf("routes %q, path %q: got %s, want one of %q", lines, path, got, matches)
			}
		}
	}
}

func FuzzRouter(f *testing.F) {
	f.Add("/users/:id", "/users/:x")
	f.Add("/static/*", "/static/*")
	f.Add("/a/*x/b/*y", "/a/1/b/2/b/3")
	f.Add(`/\:a/%41`, "/%3Aa/A")
	f.Add("/:a", "/%zz")
	f.Fuzz(func(t *testing.T, routePath, path string) {
		table := newTable(t, "GET /users/:id", "GET /static/*", "POST /users/new", "GET /a/*x/b/*y/c")
		if err := table.Add(newRoute("GET", routePath, 4, "")); err != nil && err.Error() == "" {
			t.Error("an error without a message")
		}
		for _, escaped := range []bool{false, true} {
			s := Search{Path: path, Escaped: escaped, Method: "GET"}
			r := table.Find(&s)
			methods := table.methods(path, escaped)
			if (r != nil) != slices.Contains(methods, "GET") {
				t.Errorf("path %q: found %v, methods %v", path, r, methods)
			}
			if r == nil {
				continue
			}
			for i := range r.names {
				got := s.param(i)
				if want, err := url.PathUnescape(got); !escaped && err == nil && want == "" && got != "" {
					t.Errorf("parameter %d: got %q", i, got)
				}
			}
		}
	})
}

func makeRouter(t testing.TB, config string) *router {
	t.Helper()
	n, err := tryRouter(t, config)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return n.(*router)
}

func configOf(t testing.TB, text string) schema.Config {
	t.Helper()
	c, found := Def().Config.Decode(schema.RawOf(flowtest.Parse(t, text)))
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

func tryRouter(t testing.TB, config string) (node.Node, error) {
	t.Helper()
	def := Def()
	return def.New(&node.Init{Config: configOf(t, config)})
}

const userRoutes = `{"routes":[
	{"method":"get","path":"/users/:id","port":"out[1]"},
	{"method":"POST","path":"/users","port":"out"},
	{"method":"GET","path":"/ping","port":"out[2]"}]}`

// TestManyRoutes makes tables of 100,000 routes, of as many paths and of as many
// methods: at quadratic cost they would take minutes.
func TestManyRoutes(t *testing.T) {
	const n = 100_000
	for _, pattern := range []string{"GET /a%d/:id", "M%d /a", "GET /:a/%d/:c", "GET /*/%d"} {
		table := NewTable()
		for i := range n {
			method, path, _ := strings.Cut(fmt.Sprintf(pattern, i), " ")
			if err := table.Add(newRoute(method, path, i, "")); err != nil {
				t.Fatal(err)
			}
		}
		method, path, _ := strings.Cut(fmt.Sprintf(strings.NewReplacer(":", "", "*", "x").Replace(pattern), n-1), " ")
		if got, _, _ := strings.Cut(table.lookUp(method, path, false), " "); got != fmt.Sprint(n-1) {
			t.Errorf("%s: got %s, want %d", pattern, got, n-1)
		}
	}
}

// TestAnyMethod prefers a route of the method itself.
func TestAnyMethod(t *testing.T) {
	table := newTable(t, "* /a", "GET /a", "GET /b", "* /*rest", "POST /:p/x")
	f := func(method, path, want string) {
		t.Helper()
		if got := table.lookUp(method, path, false); got != want {
			t.Errorf("%s %s: got %s, want %s", method, path, got, want)
		}
	}
	f("GET", "/a", "1")
	f("HEAD", "/a", "1")
	f("PURGE", "/a", "0")
	f("OPTIONS", "/a", "0")
	f("POST", "/b", `3 rest="b"`)
	f("POST", "/q/x", `4 p="q"`)
	f("PUT", "/q/x", `3 rest="q/x"`)
	if err := table.Add(newRoute("*", "/a", 0, "")); err == nil {
		t.Error("two routes for any method: got no conflict")
	}
}

// TestBraces checks the hint for parameters in braces.
func TestBraces(t *testing.T) {
	f := func(path, hint string) {
		t.Helper()
		_, _, err := parseRoutePath(path)
		var bad *badRoute
		if !errors.As(err, &bad) || bad.hint != hint {
			t.Errorf("%s: got %#v, want a hint %s", path, err, hint)
		}
	}
	f("/hello/{name}", `write "/hello/:name"`)
	f("/{a}/b/{c}", `write "/:a/b/:c"`)
	f("/files/{path...}", `write "/files/*path"`)
	f("/files/{path:.*}", `write "/files/*path"`)
	f("/{id:[0-9]+}", `write "/:id"`)
	f("/x{id}", `write ":name" as a whole segment for a parameter, or "\{" and "\}" for braces`)
	if got := newTable(t, `GET /\{x\}`).lookUp("GET", "/{x}", false); got != "0" {
		t.Errorf("escaped braces: got %s, want a match", got)
	}
}

func TestRouter(t *testing.T) {
	n := makeRouter(t, userRoutes)
	f := func(in string, op effect.Op, port int32, out string) {
		t.Helper()
		result := n.Receive(nil, node.Packet{Payload: flowtest.Parse(t, in)})
		r := result.Effect()
		got := value.ErrorMap(r.Payload).String()
		if r.Op != op || r.Port != port || got != out {
			t.Errorf("%s: got op %d, port %d, %s, want op %d, port %d, %s", in, r.Op, r.Port, got, op, port, out)
		}
	}
	f(`{"method":"GET","path":"/users/7","x":1}`, effect.Send, 1, `{"method":"GET","path":"/users/7","x":1,"params":{"id":"7"}}`)
	f(`{"method":"POST","path":"/users"}`, effect.Send, 0, `{"method":"POST","path":"/users","params":{}}`)
	f(`{"method":"HEAD","path":"/ping","params":{"old":"1"}}`, effect.Send, 2, `{"method":"HEAD","path":"/ping","params":{}}`)
	f(`{"method":"GET","path":"/users/a%2Fb"}`, effect.Send, 1, `{"method":"GET","path":"/users/a%2Fb","params":{"id":"a%2Fb"}}`)
	f(`{"method":"GET","path":"/"}`, effect.Fail, 0, `{"message":"Not Found","status":404,"public":true}`)
	f(`{"method":"GET","path":""}`, effect.Fail, 0, `{"message":"Not Found","status":404,"public":true}`)
	f(`{"method":"","path":"/ping"}`, effect.Fail, 0, `{"message":"Method Not Allowed","status":405,"public":true,"data":{"allow":["GET","HEAD","OPTIONS"]}}`)
	f(`{"method":"DELETE","path":"/users/7"}`, effect.Fail, 0, `{"message":"Method Not Allowed","status":405,"public":true,"data":{"allow":["GET","HEAD","OPTIONS"]}}`)
	f(`{"method":"OPTIONS","path":"/users"}`, effect.Answer, 0, `{"status":204,"header":{"Allow":"OPTIONS, POST"}}`)
	for _, in := range []string{`null`, `"x"`, `[null]`, `{}`, `{"method":"GET"}`, `{"path":"/ping"}`, `{"method":1,"path":"/"}`} {
		f(in, effect.Fail, 0, `{"message":"`+errNoRequest.Error()+`"}`)
	}
	if got := routePorts(configOf(t, userRoutes)); got != 3 {
		t.Errorf("out-ports: got %d, want 3", got)
	}
}

func TestRouterChecks(t *testing.T) {
	_, err := tryRouter(t, `{"routes":[
		{"method":"GET","path":"/a/:x","port":"out"},
		{"method":"get","path":"/a/:y","port":"out"},
		{"method":"GET","path":"a","port":"out"},
		{"method":"G T","path":"/","port":"out"}]}`)
	var found diag.List
	if !errors.As(err, &found) || len(found) != 3 {
		t.Fatalf("got %v, want three findings", err)
	}
	for i, want := range []diag.Code{diag.CodeRouteConflict, diag.CodeBadRoute, diag.CodeBadRoute} {
		if found[i].Code != want || found[i].Path == "" || found[i].Hint == "" {
			t.Errorf("finding %d: got %s at %q with hint %q, want %s, a path and a hint", i, found[i].Code, found[i].Path, found[i].Hint, want)
		}
	}
}

// requestTo returns a payload as a listener makes it.
func requestTo(method, target string) value.Value {
	r := httptest.NewRequest(method, target, nil)
	var from request.Origin
	from.Set(r, nil)
	return request.New(r, &from).Value(value.Null())
}

// TestRouterEscaped routes requests of a listener by their paths as they were sent.
func TestRouterEscaped(t *testing.T) {
	n := makeRouter(t, userRoutes)
	f := func(payload value.Value, want string) {
		t.Helper()
		r := n.Receive(nil, node.Packet{Payload: payload})
		params, _ := r.Effect().Payload.Get("params")
		if got := params.String(); got != want {
			t.Errorf("got params %s, want %s", got, want)
		}
	}
	f(requestTo("GET", "/users/a%2Fb%20c"), `{"id":"a/b c"}`)
	f(requestTo("GET", "/users/a%20b"), `{"id":"a b"}`)
	f(requestTo("GET", "/users/%2525"), `{"id":"%25"}`)
	f(requestTo("GET", "/users/a%2Fb").With("path", value.String("/users/c")), `{"id":"c"}`)
}

func TestRouterAllocs(t *testing.T) {
	if invariant.Race {
		return // allocations are not counted under the race detector
	}
	n := makeRouter(t, userRoutes)
	f := func(target string, want float64) {
		t.Helper()
		// A payload has room for params once, so each run gets its own.
		payloads := make([]value.Value, 202)
		for i := range payloads {
			payloads[i] = requestTo("GET", target)
		}
		i := 0
		got := testing.AllocsPerRun(200, func() {
			n.Receive(nil, node.Packet{Payload: payloads[i]})
			i++
		})
		if got > want {
			t.Errorf("%s: got %v allocations, want %v", target, got, want)
		}
	}
	f("/ping", 1)     // the map with params
	f("/users/42", 3) // and params, and its fields
}

var benchPaths = []string{
	"/", "/ping", "/users", "/users/:id", "/users/:id/books", "/users/:id/books/:book", "/orders/:id", "/orders/:id/items/:item",
	"/static/*", "/health", "/metrics", "/api/v1/things", "/api/v1/things/:id", "/api/v1/others/:id",
}

func benchRouter(b *testing.B, path string) {
	var lines []string
	mux := http.NewServeMux()
	for _, p := range benchPaths {
		lines = append(lines, "GET "+p)
		parts := strings.Split(p, "/")
		for i, part := range parts {
			if strings.HasPrefix(part, ":") {
				parts[i] = "{" + part[1:] + "}"
			} else if part == "*" {
				parts[i] = "{rest...}"
			}
		}
		mux.HandleFunc("GET "+strings.TrimSuffix(strings.Join(parts, "/"), "/")+map[bool]string{true: "/{$}"}[p == "/"], func(http.ResponseWriter, *http.Request) {})
	}
	table := newTable(b, lines...)
	b.Run("router", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s := Search{Path: path, Method: "GET"}
			if r := table.Find(&s); r == nil || !s.values(r).IsNull() && len(r.names) > 2 {
				b.Fatal("no route")
			}
		}
	})
	b.Run("mux", func(b *testing.B) {
		b.ReportAllocs()
		r := httptest.NewRequest("GET", path, nil)
		for b.Loop() {
			mux.ServeHTTP(nil, r)
		}
	})
}

// BenchmarkRouterScale looks up routes with a parameter in tables of several sizes,
// which should cost the same.
func BenchmarkRouterScale(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			table := NewTable()
			for i := range n {
				if err := table.Add(newRoute("GET", fmt.Sprintf("/things%d/:id/parts", i), i, "")); err != nil {
					b.Fatal(err)
				}
			}
			path := fmt.Sprintf("/things%d/42/parts", n/2)
			b.ReportAllocs()
			for b.Loop() {
				s := Search{Path: path, Method: "GET"}
				if table.Find(&s) == nil {
					b.Fatal("no route")
				}
			}
		})
	}
}

func BenchmarkRouterStatic(b *testing.B) { benchRouter(b, "/api/v1/things") }
func BenchmarkRouterParams(b *testing.B) { benchRouter(b, "/orders/12/items/34") }
func BenchmarkRouterRest(b *testing.B)   { benchRouter(b, "/static/css/main.css") }
