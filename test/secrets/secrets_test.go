// Package secrets runs the program with secrets in all places where a document can have
// one, and looks for them in everything that it puts out.
package secrets

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// command is the name under which the test binary is the program.
const command = "uniflow"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == command {
		machine := app.System()
		machine.Kinds = []func(stream.Options) []*node.Def{func(stream.Options) []*node.Def { return []*node.Def{careless()} }}
		os.Exit(cli.Main(context.Background(), os.Args[1:], machine))
	}
	leak.Main(m, servertest.Stop)
}

// careless is a kind that shows its secret wherever a kind can.
func careless() *node.Def {
	return &node.Def{
		Kind: "careless", Summary: "Shows a secret in all ways.",
		Page:   node.Page{Doc: "It is for tests.", Example: "kind: careless\nname: a\ntext: b\n"},
		Config: schema.Fields(schema.String("text").Secret(), schema.String("mode")),
		In:     []node.Port{{Name: "in", Doc: "Anything."}}, Out: []node.Port{{Name: "out", Doc: "Nothing."}},
		New: func(init *node.Init) (node.Node, error) {
			c := &carelessNode{init: init, text: init.Config.String("text"), mode: init.Config.String("mode")}
			init.Log.Info("made of "+c.text, "text", c.text, "list", []string{c.text}, "group", map[string]any{"a": c.text})
			switch c.mode {
			case "new":
				return nil, fmt.Errorf("cannot use %q", c.text)
			case "panic in new":
				panic("cannot use " + c.text)
			}
			return c, nil
		},
	}
}

type carelessNode struct {
	init       *node.Init
	text, mode string
}

func (c *carelessNode) Open(context.Context) error {
	c.init.Log.With("with", c.text).Debug("opens", "url", "http://user:"+url.PathEscape(c.text)+"@host/", "err", errors.New(c.text))
	switch c.mode {
	case "open":
		return fmt.Errorf("cannot open %s", base64.StdEncoding.EncodeToString([]byte("user:"+c.text)))
	case "panic in open":
		panic(errors.New(c.text))
	}
	return nil
}

func (c *carelessNode) Close() error { return errors.New("cannot close " + c.text) }

func (c *carelessNode) Measure(report func(node.Metric)) {
	report(node.Metric{Name: "careless_total", Help: "For tests.", Type: node.MetricCounter, Labels: []node.Label{{Name: "text", Value: c.text}}, Value: 1})
}

func (c *carelessNode) Receive(node.Process, node.Packet) node.Result {
	if c.mode == "panic" {
		panic("it has " + c.text)
	}
	return node.Fail(&node.Error{
		Err:    fmt.Errorf("%s, %x, %s, %v", c.text, c.text, url.QueryEscape(c.text), []byte(c.text)),
		Public: true, Data: c.init.Config.Value("text"),
	})
}

// A place is where a document has a secret: {{ .S }} in its spec.
type place struct {
	name  string
	spec  string // of a node called like the place, which a route leads to
	fails string // a part of the finding, if the document cannot be served
	opens bool   // it fails only when it is opened
	ticks bool   // it starts processes itself, and no route leads to it
}

// places has a row for each kind of place; add one for each new kind. A document has to
// be valid unless fails is set. Documents called bad-… are not served; documents called
// test-… are only tested: their answer is the secret, which a workflow may send to whom
// it likes. POSTGRES and MARIADB are addresses.
var places = []place{
	{name: "thrown", spec: "kind: snippet\nlanguage: javascript\ncode: |\n  export default () => { throw new Error('not {{ .S | js }}') }"},
	{name: "logged", spec: "kind: snippet\nlanguage: javascript\ncode: |\n  export default () => { console.log('it is', '{{ .S | js }}'); return 1 }"},
	{name: "cel", spec: "kind: snippet\nlanguage: cel\ncode: '{\"a\": 1}[\"{{ .S | js }}\"]'"},
	{name: "condition", spec: "kind: if\nwhen: self.nope == '{{ .S | js }}'"},
	{name: "refused", spec: "kind: throw\nstatus: 400\nannotations: {a: b}"},
	{name: "error", spec: "kind: careless\ntext: '{{ .S }}'"},
	{name: "panic", spec: "kind: careless\ntext: '{{ .S }}'\nmode: panic"},
	{name: "header", spec: "kind: batch\nurl: http://127.0.0.1:1/\nheader: {Authorization: 'Bearer {{ .S }}'}"},
	{name: "bearer", spec: "kind: http\nurl: http://127.0.0.1:1/\nauth: {token: '{{ .S }}'}"},
	{name: "basic", spec: "kind: http\nurl: 'http://127.0.0.1:1/{{ .S | urlquery }}?a={{ .S | urlquery }}'\nauth: {user: u, password: '{{ .S }}'}"},
	{name: "mcp-token", spec: "kind: mcp_call\nurl: 'http://127.0.0.1:1/mcp?key={{ .S | urlquery }}'\ntoken: '{{ .S }}'\nheader: {X-Key: '{{ .S }}'}\ntool: t"},
	{name: "mcp-environment", spec: "kind: mcp_call\ncommand: [sh, -c, 'env >&2; exit 1']\nenvironment: {KEY: '{{ .S }}'}\ntool: t"},
	{name: "mcp-arguments", spec: "kind: mcp_call\nurl: http://127.0.0.1:1/mcp\ntool: t\narguments: {key: '{{ .S }}'}"},
	{name: "secret-header", spec: "kind: step\nspecs:\n  - kind: snippet\n    language: cel\n    code: '{\"header\": {\"Authorization\": \"Bearer {{ .S | js }}\"}}'\n  - {kind: http, url: 'http://127.0.0.1:1/'}"},
	{name: "header-value", spec: "kind: step\nspecs:\n  - kind: snippet\n    language: cel\n    code: '{\"header\": {\"X-Key\": \"{{ .S | js }}\\\\n\"}}'\n  - {kind: http, url: 'http://127.0.0.1:1/'}"},
	{name: "model", spec: "kind: llm\nurl: http://127.0.0.1:1/v1\nmodel: '{{ .S }}'\nkey: '{{ .S }}'\nheader: {X-Key: '{{ .S }}'}\nsystem: 'say {{ .S }}'\nretry: {threshold: 0}"},
	{name: "model-prompt", spec: "kind: llm\nurl: http://127.0.0.1:1/v1\nmodel: m\nprompt: '[\"{{ .S | js }}\"]'\nrequest: {user: '{{ .S }}'}\nretry: {threshold: 0}"},
	{name: "bad-model-key", fails: "key", spec: "kind: llm\nurl: http://127.0.0.1:1/v1\nmodel: m\nkey: \"{{ .S }}\\n\""},
	{name: "bad-model-request", fails: "request", spec: "kind: llm\nurl: http://127.0.0.1:1/v1\nmodel: m\nrequest: '{{ .S }}'"},
	{name: "proxy", spec: "kind: http\nurl: http://127.0.0.2:1/\nproxy: http://127.0.0.1:1\nproxy_auth: {user: u, password: '{{ .S }}'}"},
	{name: "url", spec: "kind: batch\nurl: 'http://user:{{ .S | urlquery }}@127.0.0.1:1/'"},
	{name: "source", spec: "kind: sql\ndriver: sqlite\nsource: 'file:{{ .S | urlquery }}?mode=memory'"},
	{name: "postgres", spec: "kind: sql\ndriver: postgres\nsource: 'postgres://postgres:{{ .S | urlquery }}@POSTGRES/postgres?sslmode=disable'"},
	{name: "mysql", spec: "kind: sql\ndriver: mysql\nsource: 'guest:{{ .S }}@tcp(MARIADB)/test'"},
	{name: "introspection", spec: "kind: step\nspecs:\n  - {kind: snippet, language: text, code: 'SELECT * FROM \"values\"'}\n  - {kind: sql, driver: internal}"},
	{name: "introspected", spec: "kind: step\nspecs:\n  - {kind: snippet, language: text, code: SELECT * FROM specs}\n  - {kind: sql, driver: internal}"},
	{name: "tick", ticks: true, spec: "kind: schedule\ninterval: 50ms\npayload: ['{{ .S }}', {a: '{{ .S }}'}]\nports: {out: [{name: ticked}]}"},
	{name: "ticked", spec: "kind: snippet\nlanguage: javascript\ncode: |\n  export default (p) => { throw new Error('not ' + JSON.stringify(p)) }"},

	{name: "conversations", spec: "kind: chat\npath: /\nsecret: '{{ .S }}'"},
	{name: "old-conversations", spec: "kind: chat\npath: /\nsecret: [an example of 16 bytes, '{{ .S }}']"},
	{name: "sessions", spec: "kind: session\ncookie: {secret: [an example of 16 bytes, '{{ .S }}']}"},
	{name: "slack-secrets", spec: "kind: slack\ntoken: '{{ .S }}'\nsigning_secret: '{{ .S }}'\napi: http://127.0.0.1:1"},
	{name: "slack-app-token", spec: "kind: slack\ntoken: '{{ .S }}'\napp_token: '{{ .S }}'\napi: http://127.0.0.1:1"},
	{name: "telegram-secret", spec: "kind: telegram\ntoken: 1:abcdef\nwebhook_secret: '{{ .S }}'\napi: http://127.0.0.1:1"},

	{name: "test-text", spec: "kind: snippet\nlanguage: cel\ncode: '\"hello {{ .S | js }}\"'"},
	{name: "test-map", spec: "kind: snippet\nlanguage: cel\ncode: '{\"{{ .S | js }}\": [1, \"{{ .S | js }}\", bytes(\"{{ .S | js }}\")]}'"},
	{name: "test-log", spec: "kind: snippet\nlanguage: javascript\ncode: |\n  export default () => { console.error('it is {{ .S | js }}'); return '{{ .S | js }}' }"},

	{name: "bad-duration", fails: "timeout", spec: "kind: snippet\nlanguage: javascript\ntimeout: '{{ .S }}'\ncode: export default () => 1"},
	{name: "bad-language", fails: "language", spec: "kind: snippet\nlanguage: '{{ .S }}'\ncode: x"},
	{name: "bad-code", fails: "code", spec: "kind: snippet\nlanguage: cel\ncode: '{{ .S }} +'"},
	{name: "bad-script", fails: "code", spec: "kind: snippet\nlanguage: javascript\ncode: 'export default {{ .S }} ==='"},
	{name: "bad-when", fails: "code", spec: "kind: if\nwhen: '{{ .S }} =='"},
	{name: "bad-status", fails: "status", spec: "kind: throw\nstatus: '{{ .S }}'"},
	{name: "bad-template", fails: "template", spec: "kind: snippet\nlanguage: text\ncode: '{{ .S.nope }}'"},
	{name: "bad-key", fails: "no such file", opens: true, spec: "kind: listener\nport: 0\ntls: {cert: '{{ .S }}', key: '{{ .S }}'}"},
	{name: "bad-new", fails: "F2007", spec: "kind: careless\ntext: '{{ .S }}'\nmode: new"},
	{name: "bad-new-panic", fails: "F7001", spec: "kind: careless\ntext: '{{ .S }}'\nmode: panic in new"},
	{name: "bad-open", opens: true, fails: "cannot open", spec: "kind: careless\ntext: '{{ .S }}'\nmode: open"},
	{name: "bad-open-panic", opens: true, fails: "panic in Open", spec: "kind: careless\ntext: '{{ .S }}'\nmode: panic in open"},
	{name: "bad-source", fails: "cannot be reached", opens: true, spec: "kind: sql\ndriver: sqlite\nsource: 'file:/nowhere/{{ .S | urlquery }}/x.db'"},
	{name: "bad-postgres", fails: "cannot be reached", opens: true, spec: "kind: sql\ndriver: postgres\nconnect_timeout: 10ms\nsource: 'postgres://u:{{ .S | urlquery }}@127.0.0.1:1/db?sslmode=disable'"},
	{name: "bad-postgres-source", fails: "source", spec: "kind: sql\ndriver: postgres\nsource: 'postgres://u:{{ .S }}@127.0.0.1:1/db'"},
	{name: "bad-postgres-words", fails: "source", spec: "kind: sql\ndriver: postgres\nsource: 'host=127.0.0.1 port=1 password={{ .S }} sslmode=never'"},
	{name: "bad-mysql", fails: "cannot be reached", opens: true, spec: "kind: sql\ndriver: mysql\nconnect_timeout: 10ms\nsource: 'u:{{ .S }}@tcp(127.0.0.1:1)/test'"},
	{name: "bad-mysql-password", fails: "cannot be reached", opens: true, spec: "kind: sql\ndriver: mysql\nconnect_timeout: 10ms\nsource: 'guest:{{ .S }}@tcp(MARIADB)/test'"},
	{name: "bad-mysql-source", fails: "source", spec: "kind: sql\ndriver: mysql\nsource: 'u:{{ .S }}@tcp(127.0.0.1:1'"},
	{name: "bad-proxy", fails: "proxy", spec: "kind: http\nurl: http://127.0.0.1:1/\nproxy: 'http://u:{{ .S | urlquery }}@127.0.0.1:1'"},
	{name: "bad-proxy-url", fails: "proxy", spec: "kind: http\nurl: http://127.0.0.1:1/\nproxy: 'http://u:{{ .S }}@127.0.0.1:1'"},
	{name: "bad-url", fails: "url", spec: "kind: http\nurl: 'http://u:{{ .S }}@127.0.0.1:1/'"},
	{name: "bad-mcp-url", fails: "url", spec: "kind: mcp_call\nurl: 'http://u:{{ .S | urlquery }}@127.0.0.1:1/'\ntool: t"},
	{name: "bad-mcp-token", fails: "token", spec: "kind: mcp_call\nurl: http://127.0.0.1:1/\ntoken: \"{{ .S }}\\n\"\ntool: t"},
	{name: "bad-client-key", fails: "no such file", opens: true, spec: "kind: http\nurl: https://127.0.0.1:1/\ntls: {cert: '{{ .S }}', key: '{{ .S }}'}"},
	{name: "bad-login", fails: "secret", spec: "kind: login\nissuer: http://127.0.0.1:1\nurl: http://127.0.0.1:2\nclient_id: shop\nclient_secret: '{{ .S }}'\nsecret: ['{{ .S }}{{ .S }}', short]"},
	{name: "bad-acme-key", fails: "hmac", spec: "kind: listener\nport: 0\ntls: {acme: {domains: [shop.example], storage: store, eab: {key_id: '7', hmac: '{{ .S }}'}}}"},
	{name: "bad-telegram", fails: "token", spec: "kind: telegram\npoll: true\ntoken: '{{ .S }}'"},
	{name: "bad-payload", fails: "interval", spec: "kind: schedule\ninterval: '{{ .S }}'\npayload: '{{ .S }}'"},
	{name: "bad-literal", fails: "unknown", spec: "{kind: careless, text: 'LITERAL', txt: 1}"},
	{name: "bad-yaml", fails: "F1001", spec: "{kind: careless, text: 'LITERAL', txt: [}"},
}

// secretOf makes a secret with characters that every encoding changes.
func secretOf(name string) string { return "Q7/" + name + `+"&<é%z` }

// served reports whether a route leads to the place.
func (p place) served() bool {
	return !strings.HasPrefix(p.name, "bad-") && !strings.HasPrefix(p.name, "test-") && !p.ticks
}

// document returns the spec of a place, indented as an item of a list.
func (p place) document() string {
	literal, _ := json.Marshal(secretOf(p.name))
	spec := strings.ReplaceAll(p.spec, "'LITERAL'", string(literal))
	if strings.HasPrefix(spec, "{") {
		return "- " + spec + "\n"
	}
	return "- " + strings.ReplaceAll(spec+"\nname: "+p.name+"\nenv: {S: {name: "+p.name+"}}", "\n", "\n  ") + "\n"
}

// TestSecrets serves all sound places under load and reloads each of the others, with
// every log, trace, profile and page that there is, and ends the program by SIGQUIT.
func TestSecrets(t *testing.T) {
	databases(t)
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) { t.Parallel(); serveAll(t, format) })
	}
}

func serveAll(t *testing.T, format string) {
	out := newOutput(t)
	traces := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		out.add("trace", data)
	}))
	defer traces.Close()
	dir := t.TempDir()
	good, routes, ports := "", "", ""
	n := 0
	for _, p := range places {
		if p.ticks {
			good += p.document()
		}
		if !p.served() {
			continue
		}
		good += p.document()
		routes += fmt.Sprintf("    - {method: '*', path: /%s, port: 'out[%d]'}\n", p.name, n)
		ports += fmt.Sprintf("    out[%d]: [{name: %s}]\n", n, p.name)
		n++
	}
	good = "- kind: listener\n  name: web\n  host: 127.0.0.1\n  port: 0\n  ports: {out: [{name: router}]}\n" +
		"- kind: router\n  name: router\n  routes:\n" + routes + "  ports:\n" + ports + good
	flow, values := filepath.Join(dir, "flow.yaml"), filepath.Join(dir, "values.json")
	write(t, flow, good)
	write(t, values, variables(t))
	p := start(t, out, dir, "start", flow, "--from-values", values, "--admin", "127.0.0.1:0", "--allow-exec", "--debug", "--debug-nodes", "*", "--log-format", format,
		"--slow", "1ns", "--slow-dir", filepath.Join(dir, "slow"), "--otlp", traces.URL, "--grace", "1s")
	web, admin := p.find(`kind[=":]+listener.*?address[=":]+([0-9.:]+)`), p.find(`admin server listening.*?address[=":]+([0-9.:]+)`)
	p.find(`(generation serves)`)

	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				for _, pl := range places {
					if !pl.served() {
						continue
					}
					body := ""
					if pl.name == "refused" {
						body = secretOf(pl.name) // of the client, but then it is the message of an error
					}
					fetch(ctx, out, "answer of "+pl.name, "http://"+web+"/"+pl.name, body)
				}
			}
		})
	}
	pages := []string{
		"/", "/healthz", "/readyz", "/metrics", "/api/v1/", "/api/v1/status", "/api/v1/nodes", "/api/v1/graph", "/api/v1/graph?as=svg", "/api/v1/kinds", "/api/v1/slow/", "/debug/pprof/",
		"/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=0.2",
	}
	visit := func() {
		for _, page := range pages {
			if fetch(t.Context(), out, page, "http://"+admin+page, "") == 0 {
				t.Errorf("no answer from %s", page)
			}
		}
	}
	visit()
	cancel()
	load.Wait()
	for _, pl := range places {
		if !strings.HasPrefix(pl.name, "bad-") {
			continue
		}
		write(t, flow, good+pl.document())
		from := p.mark()
		p.signal(syscall.SIGHUP)
		p.findFrom(from, `(`+regexp.QuoteMeta(pl.fails)+`)`)
		p.findFrom(from, `(not reloaded: the previous generation goes on)`)
		fetch(t.Context(), out, "status after "+pl.name, "http://"+admin+"/api/v1/status", "")
		fetch(t.Context(), out, "readyz after "+pl.name, "http://"+admin+"/readyz", "")
		for _, args := range [][]string{{"check", "--json"}, {"check"}, {"start"}} {
			data, err := program(t, dir, append(args, flow, "--from-values", values)...).CombinedOutput()
			if err == nil && !pl.opens {
				t.Errorf("%s: %v has not failed: %s", pl.name, args, data)
			}
			if args[0] == "start" || err != nil {
				out.add(strings.Join(args, " ")+" of "+pl.name, data)
			}
		}
	}
	visit()
	p.signal(syscall.SIGQUIT)
	<-p.ended
	out.folder(filepath.Join(dir, "slow"))
	out.search(120, 100_000, // where a secret would be without redaction
		"trace", "log", "/metrics", "answer of error", "answer of introspection", "answer of introspected", "file .json",
		"status after bad-open", "readyz after bad-open", "start of bad-open")
}

// databases writes the addresses of databases into the places. In MariaDB, the user
// guest has a secret for a password.
var databases = func() func(t *testing.T) {
	var once sync.Once
	return func(t *testing.T) {
		postgres, mariadb := servertest.Postgres(t), servertest.MariaDB(t)
		once.Do(func() {
			db, err := sql.Open("mysql", "root@tcp("+mariadb.Addr+")/test")
			if err != nil {
				t.Fatal(err)
			}
			for _, host := range []string{"localhost", "%"} {
				for _, statement := range []string{"CREATE USER guest@'" + host + "' IDENTIFIED BY '" + secretOf("mysql") + "'", "GRANT ALL ON test.* TO guest@'" + host + "'"} {
					if _, err := db.ExecContext(t.Context(), statement); err != nil {
						t.Error(err)
					}
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			addresses := strings.NewReplacer("POSTGRES", postgres.Addr, "MARIADB", mariadb.Addr)
			for i := range places {
				places[i].spec = addresses.Replace(places[i].spec)
			}
		})
	}
}()

// TestCommands runs a failing test of each place, calls it, and gives the documents to the
// commands that only read them.
func TestCommands(t *testing.T) {
	databases(t)
	out, dir := newOutput(t), t.TempDir()
	flow, values := filepath.Join(dir, "flow.yaml"), filepath.Join(dir, "values.json")
	write(t, values, variables(t))
	run := func(fails bool, name string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		cmd := program(t, dir, args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); (err != nil) != fails {
			t.Errorf("%v: got %v: %s%s", args, err, &stdout, &stderr)
		}
		out.add(name, stdout.Bytes())
		out.add(name, stderr.Bytes())
	}
	good, tests := "", ""
	var recordings []string
	for _, p := range places {
		if strings.HasPrefix(p.name, "bad-") {
			continue
		}
		good += p.document()
		if p.ticks {
			continue
		}
		env := "  env: {S: {name: " + p.name + "}}\n"
		tests += "- kind: test\n  name: test of " + p.name + "\n  ports: {'out[0]': [{name: " + p.name + "}], 'out[1]': [{name: assert of " + p.name + "}]}\n" +
			"- kind: assert\n  name: assert of " + p.name + "\n  expect: 'self == \"not {{ .S | js }}\"'\n" + env
		if strings.HasPrefix(p.name, "test-") {
			recordings = append(recordings, "--mock", p.name+"="+p.name+".jsonl")
		}
	}
	write(t, flow, good+tests)
	run(true, "test", "test", "-f", flow, "--from-values", values)
	run(true, "test --json", "test", "-f", flow, "--from-values", values, "--json")
	run(true, "test --junit", "test", "-f", flow, "--from-values", values, "--junit", filepath.Join(dir, "report.xml"), "--cover", "--cover-listing")
	for _, more := range []string{"--update", "--json"} {
		args := append([]string{"test", "-f", flow, "--from-values", values, more}, recordings...)
		run(true, "recorded test "+more, args...)
	}
	for _, file := range []string{"report.xml", "test-text.jsonl", "test-map.jsonl", "test-log.jsonl"} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
		}
		out.add(file, data)
	}
	for _, p := range places {
		if p.served() && !strings.HasPrefix(p.spec, "kind: batch") { // which tries to send for 10 s more
			write(t, flow, p.document())
			run(p.name != "logged" && !strings.HasPrefix(p.name, "introspect"), "call", "call", flow, p.name, "--from-values", values, "--input", "1")
		}
	}

	literal, err := json.Marshal(secretOf("bad-literal"))
	if err != nil {
		t.Fatal(err)
	}
	template := "- kind: template\n  name: card\n  parameters: [{name: a}]\n  specs: [{kind: careless, name: c, text: " + string(literal) + "}]\n  inbounds: {in: [{name: c}]}\n"
	for name, text := range map[string]string{"template": template, "bad template": template + "  nope: 1\n", "cut template": template + "  nope: [\n"} {
		bad := name != "template"
		write(t, flow, text)
		run(bad, "list of "+name, "list", "-f", flow)
		run(bad, "list --json of "+name, "list", "--json", "-f", flow)
		run(bad, "schema of "+name, "schema", "-f", flow)
		run(bad, "describe of "+name, "describe", "card", "-f", flow)
		run(bad, "describe --json of "+name, "describe", "--json", "card", "-f", flow)
		run(bad, "describe --markdown of "+name, "describe", "--markdown", "card", "-f", flow)
	}
	for _, p := range places {
		if strings.HasPrefix(p.name, "bad-") {
			write(t, flow, template+p.document())
			for _, command := range []string{"list", "schema"} {
				run(p.name == "bad-yaml", command+" of "+p.name, command, "-f", flow)
			}
		}
	}
	run(false, "explain", "explain", "F2007")
	run(false, "explain --json", "explain", "--json")
	out.search(60, 100_000, "test", "test --json", "test --junit", "report.xml", "recorded test --update", "recorded test --json",
		"test-text.jsonl", "test-map.jsonl", "test-log.jsonl", "call")
}

// variables returns a values file with a secret for each place.
func variables(t *testing.T) string {
	var vars []map[string]any
	for _, p := range places {
		vars = append(vars, map[string]any{"name": p.name, "secret": true, "data": secretOf(p.name)})
	}
	data, err := json.Marshal(vars)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fetch asks for a page, and adds the answer to what is searched. It returns the status.
func fetch(ctx context.Context, out *output, name, url, body string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		out.t.Error(err)
		return 0
	}
	if body == "" {
		req.Method = http.MethodGet
	}
	req.Header.Set("Content-Type", "text/plain")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0 // the load ends
	}
	data, _ := io.ReadAll(resp.Body) // likewise
	_ = resp.Body.Close()
	var header bytes.Buffer
	_ = resp.Header.Write(&header) // to memory
	out.add(name, append(header.Bytes(), data...))
	out.add(name, data)
	return resp.StatusCode
}

// An output is everything that the program has put out.
type output struct {
	t  *testing.T
	mu sync.Mutex
	by map[string]map[string]bool // by name, each text once
}

func newOutput(t *testing.T) *output { return &output{t: t, by: make(map[string]map[string]bool)} }

func (o *output) add(name string, data []byte) {
	if zip, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if plain, err := io.ReadAll(zip); err == nil {
			data = plain
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by[name] == nil {
		o.by[name] = make(map[string]bool)
	}
	o.by[name][string(data)] = true
}

func (o *output) folder(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		o.t.Errorf("%s: %d files, %v", dir, len(entries), err)
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			o.t.Error(err)
		}
		o.add("file "+filepath.Ext(entry.Name()), data)
	}
}

// search looks for all forms of all secrets. It fails if there is too little to search,
// or if none is redacted in some outputs.
func (o *output) search(minNames, minSize int, redacts ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	names, size := 0, 0
	for _, p := range places {
		secret := secretOf(p.name)
		quoted, _ := json.Marshal(secret)
		forms := map[string]string{
			"plain": secret, "upper": strings.ToUpper(secret), "JSON": strings.Trim(string(quoted), `"`), "quoted": strings.Trim(strconv.Quote(secret), `"`),
			"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "hex": hex.EncodeToString([]byte(secret)),
			"Base64": base64.StdEncoding.EncodeToString([]byte(secret))[:16], "part": "Q7/" + p.name, "part in a URL": "Q7%2F" + p.name,
		}
		for before := range 3 {
			padded := append(make([]byte, before), secret...)
			forms["Base64 at "+strconv.Itoa(before)] = base64.URLEncoding.EncodeToString(padded)[4:20]
		}
		for name, texts := range o.by {
			for text := range texts {
				for form, what := range forms {
					if at := strings.Index(text, what); at >= 0 {
						o.t.Errorf("%s shows the secret of %q as %s: …%s…", name, p.name, form, text[max(0, at-150):min(len(text), at+150)])
					}
				}
			}
		}
	}
	for _, texts := range o.by {
		names++
		for text := range texts {
			size += len(text)
		}
	}
	if names < minNames || size < minSize {
		o.t.Errorf("got %d outputs, %d bytes, want many", names, size)
	}
	for _, name := range redacts {
		redacted := false
		for text := range o.by[name] {
			redacted = redacted || strings.Contains(text, "[redacted]")
		}
		if !redacted {
			o.t.Errorf("%s: got %d texts, none with [redacted]", name, len(o.by[name]))
		}
	}
}

// A process is a program that serves.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}

	mu   sync.Mutex
	log  []byte
	more chan struct{} // closed when log grows
}

func program(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, command)
	if err := os.Symlink(self, link); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // one that hangs; steps have limits of their own
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, link, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOTRACEBACK=all", "GORACE=atexit_sleep_ms=0")
	if args[0] == "start" {
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	}
	return cmd
}

func start(t *testing.T, out *output, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: program(t, dir, args...), ended: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var waiter sync.WaitGroup
	waiter.Go(func() {
		_ = p.cmd.Wait() // SIGQUIT ends it
		out.add("log", []byte(p.since(0)))
		close(p.ended)
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		waiter.Wait()
	})
	return p
}

func (p *process) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, data...)
	close(p.more)
	p.more = make(chan struct{})
	return len(data), nil
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.log)
}

func (p *process) since(from int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.log[from:])
}

// find waits until the log matches, and returns the group of the pattern.
func (p *process) find(pattern string) string { return p.findFrom(0, pattern) }

func (p *process) findFrom(from int, pattern string) string {
	p.t.Helper()
	match := regexp.MustCompile(pattern)
	late := time.After(30 * time.Second)
	for {
		p.mu.Lock()
		m, more := match.FindSubmatch(p.log[from:]), p.more
		p.mu.Unlock()
		if m != nil {
			return string(m[1])
		}
		select {
		case <-more:
		case <-p.ended:
			p.t.Fatalf("ended without %s: %s", pattern, p.since(from))
		case <-late:
			p.t.Fatalf("no %s in %s", pattern, p.since(from))
		}
	}
}
