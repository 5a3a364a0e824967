package diag

// Codes of what is allowed but probably not meant.
const (
	CodeNoLanguage  Code = "F5001"
	CodeUnreachable Code = "F5002"
	CodeOlderForm   Code = "F5003"
	CodeUnusedEnv   Code = "F5004"
	CodeEndless     Code = "F5005"
	CodeNotTemplate Code = "F5006"
	CodeInsecure    Code = "F5007"
	CodeStatement   Code = "F5008"

	CodeUnseenStatus    Code = "F5009"
	CodeCommittedBefore Code = "F5010"
	CodePassedBack      Code = "F5011"
)

func lintEntries() []Entry {
	return []Entry{
		{CodeNoLanguage, "snippet without a language",
			"Without `language`, a snippet is plain text: its answer is its code. If you mean that, write `language: text`.",
			"kind: snippet\ncode: 1 + 1\n",
			"kind: snippet\nlanguage: cel\ncode: 1 + 1\n"},
		{CodeUnreachable, "node that nothing reaches",
			"No link leads to the node, and it is not a trigger, so it never does anything.",
			"- {kind: listener, name: a, protocol: http, port: 8000}\n- {kind: snippet, name: b, language: text, code: pong}\n",
			"- kind: listener\n  name: a\n  protocol: http\n  port: 8000\n  ports: {out: [{name: b, port: in}]}\n- {kind: snippet, name: b, language: text, code: pong}\n"},
		{CodeOlderForm, "older form",
			"The spec is in an older form, which still loads. `uniflow fmt` rewrites it.",
			"- kind: snippet\n  name: a\n  language: text\n  code: x\n  links: {out: [{name: b, port: io}]}\n- {kind: nop, name: b}\n",
			"- kind: snippet\n  name: a\n  language: text\n  code: x\n  ports: {out: [{name: b, port: in}]}\n- {kind: nop, name: b}\n"},
		{CodeUnusedEnv, "env that nothing uses",
			"No template of the spec uses the key of `env`.",
			"kind: snippet\nlanguage: text\nenv: {NAME: {data: world}}\ncode: hello\n",
			"kind: snippet\nlanguage: text\nenv: {NAME: {data: world}}\ncode: hello {{ .NAME }}\n"},
		{CodeEndless, "cycle without an exit",
			"Each node of the cycle sends only to nodes of the cycle, so a payload circulates until its process has used up its budget. Link one of the out-ports to a node outside, or add an `if` that ends it.",
			"- {kind: snippet, name: a, language: cel, code: self, ports: {out: [{name: b}]}}\n- {kind: snippet, name: b, language: cel, code: self, ports: {out: [{name: a}]}}\n",
			"- {kind: snippet, name: a, language: cel, code: self + 1, ports: {out: [{name: b}]}}\n- {kind: if, name: b, when: self < 9, ports: {\"out[0]\": [{name: a}], \"out[1]\": []}}\n"},
		{CodeNotTemplate, "template without env",
			"A string has the form of a template, such as `{{ .KEY }}`, but the spec has no `env`: the braces stay as they are. Bind the keys in `env`, also to render a template that takes its values from the environment.",
			"kind: snippet\nlanguage: text\ncode: hello {{ .NAME }}\n",
			"kind: snippet\nlanguage: text\nenv: {NAME: {data: world}}\ncode: hello {{ .NAME }}\n"},
		{CodeInsecure, "certificates that are not verified",
			"With `skip_verify`, any server can pretend to be the service, and read and change all that is sent. To trust a certificate of your own, put the certificate of its authority into `ca`.",
			"kind: http\nurl: https://10.0.0.5/\ntls: {skip_verify: true}\n",
			"kind: http\nurl: https://10.0.0.5/\ntls: {ca: /etc/service/ca.pem}\n"},
		{CodeStatement, "template in a statement",
			"A template puts its text into a statement of SQL, so whatever it holds can change what the statement does. Send values as arguments, which the statement names: `[\"SELECT … WHERE id = :id\", {\"id\": …}]`.",
			"- kind: snippet\n  language: text\n  env: {TABLE: {data: t}}\n  code: SELECT * FROM {{ .TABLE }}\n  ports: {out: [{name: db}]}\n- {kind: sql, name: db, driver: sqlite, source: ':memory:'}\n",
			"- kind: snippet\n  language: cel\n  code: '[\"SELECT * FROM t WHERE id = :id\", {\"id\": self}]'\n  ports: {out: [{name: db}]}\n- {kind: sql, name: db, driver: sqlite, source: ':memory:'}\n"},
		{CodeUnseenStatus, "status that is not seen",
			"The answer of a service with a status of 400 and more is an error of `http`, unless a client waits for the process, as under a `listener`. So what compares the status behind it never sees one. Link the port `error`, or say with `expect` which answers are to be sent on.",
			"- {kind: schedule, name: t, interval: 1h, ports: {out: [{name: call}]}}\n- {kind: http, name: call, url: 'https://api.example.com/', ports: {out: [{name: good}]}}\n- {kind: if, name: good, when: status == 200}\n",
			"- {kind: schedule, name: t, interval: 1h, ports: {out: [{name: call}]}}\n- {kind: http, name: call, url: 'https://api.example.com/', expect: 'true', ports: {out: [{name: good}]}}\n- {kind: if, name: good, when: status == 200}\n"},
		{CodeCommittedBefore, "commit before an answer",
			"`static`, `proxy` and `websocket` answer a request when its process has ended. By then, what `sql` and `session` have done before them is committed, whatever is answered.",
			"- {kind: listener, name: a, port: 8000, ports: {out: [{name: s}]}}\n- {kind: session, name: s, ports: {out: [{name: p}]}}\n- {kind: proxy, name: p, target: 'http://localhost:9000'}\n",
			"- {kind: listener, name: a, port: 8000, ports: {out: [{name: p}]}}\n- {kind: proxy, name: p, target: 'http://localhost:9000'}\n"},
		{CodePassedBack, "failure that is passed back",
			"A source takes an error as the answer of its port `error` for a failure, and sends the message there again. A `log` without a link at `out` answers with what has come, so with that error: the message is never done. Link `out` to a `nop`, or to a sink that keeps the message.",
			"- {kind: stdin, name: in, ports: {out: [{name: keep}], error: [{name: seen}]}}\n- {kind: file_sink, name: keep, path: kept.ndjson}\n- {kind: log, name: seen}\n",
			"- {kind: stdin, name: in, ports: {out: [{name: keep}], error: [{name: seen}]}}\n- {kind: file_sink, name: keep, path: kept.ndjson}\n- {kind: log, name: seen, ports: {out: [{name: drop}]}}\n- {kind: nop, name: drop}\n"},
	}
}
