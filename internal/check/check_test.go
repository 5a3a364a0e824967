package check_test

import (
	"log/slog"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/check"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/expand"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestLint(t *testing.T) {
	kinds, err := registry.New(std.Defs(""))
	if err != nil {
		t.Fatal(err)
	}
	f := func(doc, want string) {
		t.Helper()
		specs, list := spec.Parse(spec.Document{File: "w.yaml", Data: []byte(doc)}, spec.ParseOptions{})
		if list.HasErrors() {
			t.Fatal(list)
		}
		list = check.Lint(specs, nil, kinds)
		expanded, found := expand.Subgraphs(specs, kinds)
		list.Append(found)
		resolver := spec.NewResolver(nil, nil)
		list.Append(expanded.Instantiate(resolver))
		list.Append(resolver.Findings())
		_, found = compile.Compile(expanded.Nodes, compile.Options{Kinds: expanded.Kinds, Log: slog.New(slog.DiscardHandler), Pool: &node.Pool{}})
		list.Append(found)
		list.Sort()
		if got := list.Error(); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", doc, got, want)
		}
	}
	f(`- {kind: snippet, name: a, language: text, code: x}`, "")
	f(`- {kind: snippet, name: a, code: x}`,
		`w.yaml:1:3: warning: node "a": language: no language, so the code is plain text [F5001]`)
	f(`- {kind: nop, name: a, links: {}}`,
		`w.yaml:1:24: warning: node "a": links: an older form; the current form is ports [F5003]`)
	f(`- {kind: snippet, name: a, language: text, code: "{{ .USED }}", env: {USED: {data: 1}, SPARE: {data: 2}}}`,
		`w.yaml:1:88: warning: node "a": env.SPARE: env "SPARE" is used by no template [F5004]`)
	f("- {kind: listener, name: web, protocol: http, port: 1, ports: {out: [{name: a}], init: [{name: c}]}}\n"+
		"- {kind: nop, name: a}\n- {kind: nop, name: b}\n- {kind: nop, name: c}",
		`w.yaml:3:3: warning: node "b": nothing leads here, so the node never does anything [F5002]`)
	f("- {kind: listener, name: web, protocol: http, port: 1, ports: {out: [{name: a}]}}\n- {kind: nop, name: a}\n"+
		"- {kind: try, name: b, ports: {active: [{name: c}], out: [{name: d}]}}\n- {kind: nop, name: c}\n- {kind: nop, name: d}",
		`w.yaml:5:3: warning: node "d": nothing leads here, so the node never does anything [F5002]`)

	const served = "- {kind: listener, name: web, port: 1, ports: {out: [{name: g}]}}\n"
	f(served+"- {kind: block, name: g, inbounds: {in: [{name: a}]}, specs: [{kind: nop, name: a}]}\n- {kind: block, name: h, inbounds: {in: [{name: b}]}, specs: [{kind: nop, name: b}]}",
		`w.yaml:3:3: warning: node "h": nothing leads here, so the node never does anything [F5002]`+"\n"+
			`w.yaml:3:63: warning: node "h/b": nothing leads here, so the node never does anything [F5002]`)
	f(served+"- {kind: template, name: T, inbounds: {in: [{name: a}]}, specs: [{kind: nop, name: a}, {kind: nop, name: b}]}\n- {kind: T, name: g}",
		`w.yaml:2:88: warning: node "g/b": nothing leads here, so the node never does anything [F5002]`)
	f(served+"- {kind: nop, name: g}\n- {kind: nop, name: b, ports: {out: [{name: gone}]}}",
		`w.yaml:3:32: node "b": ports.out: kind nop has no out-port "out" [F3002]`+"\n"+`w.yaml:3:45: node "b": ports.out: no node "gone" in namespace "default" [F3001]`)
	const database = "- {kind: sql, name: db, driver: sqlite, source: ':memory:'}\n"
	f(database+"- {kind: block, name: g, env: {NAME: {data: t}}, inbounds: {in: [{name: a}]}, outbounds: {out: [{name: a}]}, ports: {out: [{name: db}]}, specs: [{kind: snippet, name: a, language: text, code: 'SELECT * FROM {{ .NAME }}'}]}",
		`w.yaml:2:208: warning: node "g/a": code: a template in a statement of SQL can change what the statement does [F5008]`)

	const letters = "- {kind: stdin, name: in, ports: {out: [{name: a}], error: [{name: seen}]}}\n- {kind: nop, name: a}\n"
	passedBack := func(at, name string) string {
		return "w.yaml:" + at + `: warning: node "` + name + `": it answers "in" with the failure that came from there, which then comes again without end [F5011]`
	}
	f(letters+"- {kind: log, name: seen}", passedBack("3:3", "seen"))
	f(letters+"- {kind: log, name: seen, ports: {out: [{name: again}]}}\n- {kind: log, name: again}", passedBack("4:3", "again"))
	f(letters+"- {kind: log, name: seen, ports: {out: [{name: a}]}}", "")
	f("- {kind: listener, name: in, port: 1, ports: {out: [{name: a}], error: [{name: seen}]}}\n- {kind: nop, name: a}\n- {kind: log, name: seen}", "")

	noLetters := "w.yaml:1:3: warning: node \"in\": ports: error has no link, so a message that fails is not put aside: uniflow run ends there with an error, and uniflow start tries it again without end [F5042]"
	f("- {kind: stdin, name: in, ports: {out: [{name: a}]}}\n- {kind: nop, name: a}", noLetters)
	f("- {kind: stdin, name: in, ports: {out: [{name: a}], error: []}}\n- {kind: nop, name: a}", "")
	f("- {kind: listener, name: in, port: 1}", `w.yaml:1:3: warning: node "in": ports: out has no link, so clients get back what they send [F3008]`)
	f("- {kind: listener, name: in, port: 1, ports: {out: []}}", "")
	f("- {kind: schedule, name: in, interval: 1h}", `w.yaml:1:3: warning: node "in": ports: out has no link, so nothing is done [F3008]`)
	f("- {kind: telegram, name: bot, token: '1:abcdef', webhook_secret: s}\n- {kind: schedule, name: in, interval: 1h, ports: {out: [{name: bot, port: send}]}}", "")
	f("- {kind: stdin, name: a, ports: {out: [{name: c}], error: []}}\n- {kind: stdin, name: b, ports: {out: [{name: c}], error: []}}\n- {kind: nop, name: c}",
		`w.yaml:2:3: node "b": "a" has the same standard input, so one of the two could not start [F2040]`)
	f("- {kind: stdin, name: a, ports: {out: [{name: c}], error: []}}\n- {kind: stdin, name: b, namespace: other, ports: {out: [], error: []}}\n- {kind: nop, name: c}", "")
	f("- {kind: schedule, name: in, interval: 1h, ports: {out: [{name: call}]}}\n- {kind: http, name: call, url: 'http://localhost', header: {Authorization: 'Bearer ${API_TOKEN}'}}",
		`w.yaml:2:85: warning: node "call": this looks like a variable of the environment, and is none [F5006]`)
	f("- {kind: schedule, name: in, interval: 1h, ports: {out: [{name: db}]}}\n- {kind: sql, name: db, driver: sqlite, source: $DATABASE_URL}",
		`w.yaml:2:49: warning: node "db": this looks like a variable of the environment, and is none [F5006]`)
	f("- {kind: schedule, name: in, interval: 1h, ports: {out: [{name: db}]}}\n- {kind: sql, name: db, driver: sqlite, source: a$DB.db}", "")
	f("- {kind: schedule, name: in, interval: 1h, ports: {out: [{name: call}]}}\n- {kind: snippet, name: call, language: javascript, code: 'const MAX_N = 3; export default () => `${MAX_N}`'}", "")

	// A chat is reached by the routes that lead to it, whatever is in between, and not by others.
	chat := func(route, between string) string {
		return "- {kind: chat, name: talk, path: /chat, secret: 0123456789abcdef, ports: {out: []}}\n- {kind: listener, name: in, port: 1, ports: {out: [{name: routes}]}}\n" +
			"- {kind: router, name: routes, routes: [{method: '*', path: '" + route + "', port: out}, {method: GET, path: /other, port: 'out[1]'}], ports: {'out[0]': [{name: " + between + "}], 'out[1]': [{name: no}]}}\n" +
			"- {kind: throw, name: no}\n"
	}
	unrouted := `w.yaml:1:34: warning: node "talk": path: no route of "routes" leads here for /chat/messages or /chat/socket [F5044]`
	f(chat("/chat/*", "talk"), "")
	f(chat("/chat/*rest", "talk"), "")
	f(chat("/*", "talk"), "")
	f(chat("/:app/socket", "talk"), "")
	f(chat("/chat", "talk"), unrouted)
	f(chat("/talk/*", "talk"), unrouted)
	f(chat("/talk/*", "l")+"- {kind: limit, name: l, rate: 1/s, ports: {out: [{name: talk}]}}", unrouted)
	f(chat("/talk/*", "l")+"- {kind: snippet, name: l, language: cel, code: self, ports: {out: [{name: talk}]}}", "")
	f("- {kind: chat, name: talk, secret: 0123456789abcdef, ports: {out: []}}", `w.yaml:1:3: warning: node "talk": it needs a request of HTTP, which no node before it gives [F2007]`)

	unseen := func(reader string) string {
		return `warning: node "call": a status of 400 and more is an error here, so "` + reader + `" does not see it [F5009]`
	}
	f("- {kind: stdin, name: in, ports: {error: [], out: [{name: a}]}}\n- {kind: if, name: a, when: 'status == \"paid\"', ports: {'out[0]': [{name: call}], 'out[1]': []}}\n"+
		"- {kind: http, name: call, url: 'http://localhost'}", "")
	f("- {kind: stdin, name: in, ports: {error: [], out: [{name: call}]}}\n- {kind: http, name: call, url: 'http://localhost', ports: {out: [{name: a}]}}\n"+
		"- {kind: snippet, name: a, language: javascript, code: 'export default p => p.status === 404'}", "w.yaml:2:3: "+unseen("a"))
	f("- {kind: stdin, name: in, ports: {error: [], out: [{name: call}]}}\n- {kind: http, name: call, url: 'http://localhost', ports: {out: [{name: a}]}}\n"+
		"- {kind: snippet, name: a, language: typescript, code: 'export default async function f(p: any) { return p.body.status === 404 }'}", "")
	f("- {kind: stdin, name: in, ports: {error: [], out: [{name: p}]}}\n- {kind: pipe, name: p, ports: {'out[0]': [{name: call}], 'out[1]': [{name: a}]}}\n"+
		"- {kind: http, name: call, url: 'http://localhost'}\n- {kind: if, name: a, when: status < 400, ports: {'out[0]': []}}", "w.yaml:3:3: "+unseen("a"))

	f("- {kind: listener, name: in, port: 1, ports: {out: [{name: p}]}}\n- {kind: pipe, name: p, ports: {'out[1]': [{name: files}], 'out[0]': [{name: note}]}}\n"+
		"- {kind: snippet, name: note, language: cel, code: '\"DELETE FROM t\"', ports: {out: [{name: db}]}}\n- {kind: sql, name: db, driver: sqlite, source: ':memory:'}\n- {kind: static, name: files, root: .}",
		`w.yaml:5:3: warning: node "files": what "db" has done is committed before the request is answered here [F5010]`)
	f("- {kind: listener, name: in, port: 1, ports: {out: [{name: p}]}}\n- {kind: if, name: p, when: 'true', ports: {'out[0]': [{name: note}], 'out[1]': [{name: files}]}}\n"+
		"- {kind: snippet, name: note, language: cel, code: '\"DELETE FROM t\"', ports: {out: [{name: db}]}}\n- {kind: sql, name: db, driver: sqlite, source: ':memory:'}\n- {kind: static, name: files, root: .}", "")
	f("- {kind: listener, name: in, port: 1, ports: {out: [{name: ws}]}}\n- {kind: websocket, name: ws, ports: {out: [{name: db}]}}\n"+
		"- {kind: sql, name: db, driver: sqlite, source: ':memory:', ports: {out: [{name: ws, port: send}]}}", "")
}
