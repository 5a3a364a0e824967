package diag

import "slices"

// Catalogue returns all codes with what is to be said about them, in the order of
// the codes. The caller owns the slice.
func Catalogue() []Entry {
	return slices.Concat(parseEntries(), configEntries(), linkEntries(), codeEntries(), lintEntries(), runEntries())
}

// Lookup returns the entry of a code. The letter may be small, as people type it.
func Lookup(code Code) (Entry, bool) {
	if len(code) > 0 && code[0] == 'f' {
		code = "F" + code[1:]
	}
	all := Catalogue()
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Code == code })
	if i < 0 {
		return Entry{}, false
	}
	return all[i], true
}

func parseEntries() []Entry {
	return []Entry{
		{CodeYAML, "not YAML",
			"The document is neither YAML nor JSON. The place is where reading had to stop; the mistake may be a line or two above: a bracket or a quote that is not closed, or a line indented by one blank too few. Indent with blanks, never with tabs.",
			"kind: snippet\nname: [pong\ncode: pong\n",
			"kind: snippet\nname: pong\ncode: pong\n"},
		{CodeNotSpec, "not a spec",
			"A document holds one spec, which is a map of fields, or a list of specs.",
			"- pong\n",
			"- kind: snippet\n  name: pong\n  code: pong\n"},
		{CodeDuplicateKey, "key written twice",
			"A map has the same key twice. Which of the two was meant cannot be known, so neither wins.",
			"kind: snippet\nname: a\nname: b\ncode: x\n",
			"kind: snippet\nname: a\ncode: x\n"},
		{CodeCommonField, "common field of the wrong type",
			"`id`, `kind`, `namespace` and `name` are strings, `annotations` and `env` are maps, and `ports` is a map from out-ports to lists of links. A name of digits needs quotes.",
			"kind: snippet\nname: 42\ncode: x\n",
			"kind: snippet\nname: \"42\"\ncode: x\n"},
		{CodeMissingKind, "spec without a kind",
			"Every spec says of which kind its node is. `uniflow list` shows the kinds.",
			"name: pong\ncode: pong\n",
			"kind: snippet\nname: pong\ncode: pong\n"},
		{CodeLimit, "document too large",
			"A document has at most 16 MiB, nests at most 100 levels deep, and its aliases may not multiply it without bounds. A template makes at most 16 MiB of text. Split the document into several files.",
			"", ""},
		{CodeAlias, "alias of nothing or of itself",
			"An alias such as `*base` repeats what was marked with the anchor `&base` further up. It cannot come before its anchor, nor stand within it.",
			"kind: snippet\ncode: *text\n",
			"kind: snippet\nannotations: {note: &text pong}\ncode: *text\n"},
		{CodeKey, "key that is no text",
			"Keys of maps are text. A list, a map or null cannot be one.",
			"kind: snippet\ncode: x\n? [a, b]\n: c\n",
			"kind: snippet\ncode: x\n"},
		{CodeID, "id that is no UUID",
			"An `id` is a UUID such as `01890a5d-ac96-774b-bcce-b302099a8057`. It is derived from namespace and name, or from the place of a node without a name, if left out.",
			"id: pong\nkind: snippet\ncode: pong\n",
			"name: pong\nkind: snippet\ncode: pong\n"},
		{CodeTemplate, "template that cannot be used",
			"In a spec with `env`, the strings of its kind's own fields are templates: `{{ .KEY }}` stands for what `env` binds to `KEY`. A template can use conditions, `range` and the functions of Go's text/template, and `lower`, `upper`, `trim`, `json` and `default`; it cannot define or call other templates. What a variable holds is never shown. Text that must contain `{{` is written `{{ \"{{\" }}`.",
			"kind: snippet\nenv: {NAME: {data: world}}\ncode: hello {{ .NAME\n",
			"kind: snippet\nenv: {NAME: {data: world}}\ncode: hello {{ .NAME }}\n"},
		{CodeTemplateKey, "template key that is not bound",
			"A template uses a key that `env` does not bind, or a field that the variable does not have.",
			"kind: snippet\nenv: {NAME: {data: world}}\ncode: hello {{ .NAMES }}\n",
			"kind: snippet\nenv: {NAME: {data: world}}\ncode: hello {{ .NAME }}\n"},
		{CodeUnknownVariable, "variable that is not there",
			"An entry of `env` with a `name` or `id` takes a variable of the node's namespace from the values files (`--from-values`). An entry without takes the environment that was given at start (`--environment KEY=VALUE`).",
			"kind: snippet\nenv: {NAME: {name: nobody}}\ncode: hello {{ .NAME }}\n",
			"kind: snippet\nenv: {NAME: {data: world}}\ncode: hello {{ .NAME }}\n"},
		{CodeScalar, "value that does not fit its tag",
			"A tag such as `!!int` says how a value is to be read, and the value cannot be read so; or the tag is unknown; or an integer has more than 64 bits. Tags are seldom needed: put quotes around what is text.",
			"kind: snippet\ncode: !!int pong\n",
			"kind: snippet\ncode: pong\n"},
		{CodeOldAndNew, "older and today's form at once",
			"A spec has a field of the older form (`links`, `address`) and its successor (`ports`, `host` and `port`). `uniflow fmt` rewrites the older form where there is no doubt.",
			"kind: nop\nlinks: {}\nports: {}\n",
			"kind: nop\nports: {}\n"},
		{CodeEntryField, "unknown field of an entry",
			"A link has the fields `id`, `name` and `port`; an entry of `env` has `id`, `name` and `data`; a variable has `id`, `namespace`, `name`, `annotations` and `data`.",
			"- kind: snippet\n  name: a\n  code: x\n  ports:\n    out: [{nmae: b, port: in}]\n- {kind: nop, name: b}\n",
			"- kind: snippet\n  name: a\n  code: x\n  ports:\n    out: [{name: b, port: in}]\n- {kind: nop, name: b}\n"},
		{CodeRead, "file that cannot be read",
			"A file or folder that was named cannot be opened or read, or a folder has no document in it.", "", ""},
		{CodeVariable, "variable that cannot be used",
			"A values file holds variables: maps with a `name` or an `id`, and with `data`. Within a namespace, names and ids are unique.",
			"", ""},
		{CodeName, "name that cannot be one",
			"A name is not empty, has no blanks at its ends and no line breaks, and is at most 256 bytes long.",
			"kind: snippet\nname: \"\"\ncode: x\n",
			"kind: snippet\nname: x\ncode: x\n"},
		{CodeEmpty, "document without a spec",
			"The file is empty, or has only comments. It adds nothing to the workflow.",
			"", ""},
	}
}

func configEntries() []Entry {
	return []Entry{
		{CodeUnknownField, "unknown field",
			"The kind has no such field. `uniflow describe KIND` lists those that it has. Nothing is ignored, because a field that is not read is nearly always a spelling mistake.",
			"kind: snippet\nlangauge: text\ncode: pong\n",
			"kind: snippet\nlanguage: text\ncode: pong\n"},
		{CodeMissingField, "required field missing",
			"The kind cannot work without this field.",
			"kind: snippet\nlanguage: text\n",
			"kind: snippet\nlanguage: text\ncode: pong\n"},
		{CodeWrongType, "value of the wrong type",
			"The field takes another type of value. A string that reads as a number, boolean or duration is accepted for one; a number where text is wanted needs quotes; one entry is accepted for a list.",
			"kind: throw\nstatus: many\n",
			"kind: throw\nstatus: 404\n"},
		{CodeOutOfRange, "value out of range",
			"The value is of the right type but too small or too large.",
			"kind: throw\nstatus: 42\n",
			"kind: throw\nstatus: 404\n"},
		{CodeNotOneOf, "not one of the words allowed",
			"The field takes one of a few words.",
			"kind: listener\nprotocol: htp\nport: 8000\n",
			"kind: listener\nprotocol: http\nport: 8000\n"},
		{CodeUnknownKind, "unknown kind",
			"No node of this kind is known. `uniflow list` shows the kinds.",
			"kind: snipet\ncode: pong\n",
			"kind: snippet\ncode: pong\n"},
		{CodeBadNode, "node that cannot be made",
			"Each field is right by itself, and yet the kind cannot make a node of them; or the node could not be closed. The message says why.", "", ""},
		{CodeRouteConflict, "routes that match the same requests",
			"Two routes have the same method and the same shape: whatever their parameters are called, the second would never be reached.",
			"kind: router\nroutes:\n  - {method: GET, path: \"/users/:id\", port: \"out[0]\"}\n  - {method: GET, path: \"/users/:name\", port: \"out[1]\"}\n",
			"kind: router\nroutes:\n  - {method: GET, path: \"/users/:id\", port: \"out[0]\"}\n  - {method: GET, path: \"/users/:id/name\", port: \"out[1]\"}\nports: {\"out[0]\": [], \"out[1]\": []}\n"},
		{CodeBadRoute, "path that is no route",
			"A path begins with `/`. `:name` matches one segment, `*` or `*name` the rest, `\\:` is a colon. Names within one route differ.",
			"kind: router\nroutes:\n  - {method: GET, path: users, port: \"out[0]\"}\n",
			"kind: router\nroutes:\n  - {method: GET, path: /users, port: \"out[0]\"}\nports: {\"out[0]\": []}\n"},
		{CodeBadOutPort, "not an out-port",
			"Fields that say where to send name one of the node's numbered out-ports: `out[0]`, `out[1]` and so on; `out` is `out[0]`.",
			"kind: router\nroutes:\n  - {method: GET, path: /, port: first}\n",
			"kind: router\nroutes:\n  - {method: GET, path: /, port: \"out[0]\"}\nports: {\"out[0]\": []}\n"},
		{CodeBadDuration, "not a duration",
			"A duration is a number with a unit, such as `300ms`, `5s`, `1m30s` or `2h`; a bare number is milliseconds. It cannot be negative.",
			"kind: snippet\ncode: pong\ntimeout: 5 seconds\n",
			"kind: snippet\ncode: pong\ntimeout: 5s\n"},
		{CodeBadSize, "not a size",
			"A size is a number of bytes, or a number with a unit: `64KiB`, `8MiB`, `1GiB`, or `kB`, `MB`, `GB` for powers of ten.",
			"kind: listener\nprotocol: http\nport: 8000\nlimits: {body_bytes: 8 megs}\n",
			"kind: listener\nprotocol: http\nport: 8000\nlimits: {body_bytes: 8MiB}\n"},
		{CodeBadValue, "a value that is of no use here",
			"The value has the right type, but the node cannot work with it, or not with it and another field. The message says why.",
			"kind: batch\nurl: localhost:8090\n",
			"kind: batch\nurl: http://localhost:8090/batch\n"},
		{CodeSameAddress, "two nodes at one address",
			"Two nodes of a namespace listen on the same port of the same host. One of them could not start. A node without a `host` listens on all addresses of the machine.",
			"- {kind: listener, name: a, port: 8000}\n- {kind: listener, name: b, port: 8000}\n",
			"- {kind: listener, name: a, port: 8000}\n- {kind: listener, name: b, port: 8001}\n"},
	}
}

func linkEntries() []Entry {
	return []Entry{
		{CodeUnknownTarget, "link to a node that is not there",
			"A link leads to a node by its name, or its id, within the same namespace.",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{name: pnog, port: in}]}\n- {kind: nop, name: pong}\n",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{name: pong, port: in}]}\n- {kind: nop, name: pong}\n"},
		{CodeUnknownPort, "port that is not there",
			"The node that sends has no such out-port, or the one that receives no such in-port. `uniflow describe KIND` lists the ports. Every kind with out-ports has `error`, too, and every node the ports of its lifecycle.",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {output: [{name: b, port: in}]}\n- {kind: nop, name: b}\n",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{name: b, port: in}]}\n- {kind: nop, name: b}\n"},
		{CodePortIndex, "port index out of range",
			"The port has fewer indexes than that under the node's config: nothing would ever be sent there.",
			"- kind: if\n  name: a\n  when: \"true\"\n  ports: {\"out[2]\": [{name: b, port: in}]}\n- {kind: nop, name: b}\n",
			"- kind: if\n  name: a\n  when: \"true\"\n  ports: {\"out[1]\": [{name: b, port: in}]}\n- {kind: nop, name: b}\n"},
		{CodePortGap, "gap in the port indexes",
			"The kind uses its ports in order, so that the linked indexes start at 0 and leave none out.",
			"- kind: pipe\n  name: a\n  ports: {\"out[0]\": [{name: b, port: in}], \"out[2]\": [{name: b, port: in}]}\n- {kind: nop, name: b}\n",
			"- kind: pipe\n  name: a\n  ports: {\"out[0]\": [{name: b, port: in}], \"out[1]\": [{name: b, port: in}]}\n- {kind: nop, name: b}\n"},
		{CodeDuplicateName, "name used twice",
			"Names are unique within a namespace, also across files.",
			"- {kind: nop, name: a}\n- {kind: nop, name: a}\n",
			"- {kind: nop, name: a}\n- {kind: nop, name: b}\n"},
		{CodeDuplicateID, "id used twice",
			"Ids are unique, also across namespaces and files.",
			"- {kind: nop, name: a, id: 01890a5d-ac96-774b-bcce-b302099a8057}\n- {kind: nop, name: b, id: 01890a5d-ac96-774b-bcce-b302099a8057}\n",
			"- {kind: nop, name: a, id: 01890a5d-ac96-774b-bcce-b302099a8057}\n- {kind: nop, name: b}\n"},
		{CodeBadLink, "link without one target",
			"A link names the node that it leads to, by `name` or by `id`, not by both and not by neither.",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{port: in}]}\n",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{name: b, port: in}]}\n- {kind: nop, name: b}\n"},
		{CodeUnlinked, "out-port in use without a link",
			"A route or a match of the node sends to this out-port, and `ports` does not have it. A payload sent there is the response, so a client would get its own request back. That is nearly always a wrong index; if it is meant, write the port with an empty list. It is a warning for the `default` of a switch, and for an `if` of which nothing is linked.",
			"- kind: router\n  name: a\n  routes: [{method: GET, path: /, port: \"out[1]\"}]\n  ports: {\"out[0]\": [{name: b, port: in}]}\n- {kind: nop, name: b}\n",
			"- kind: router\n  name: a\n  routes: [{method: GET, path: /, port: \"out[0]\"}, {method: POST, path: /, port: \"out[1]\"}]\n  ports: {\"out[0]\": [{name: b, port: in}], \"out[1]\": []}\n- {kind: nop, name: b}\n"},
	}
}

func codeEntries() []Entry {
	return []Entry{
		{CodeSyntax, "code that does not compile",
			"The code cannot be compiled in its language. The place is within the document. Expressions are CEL unless the node's `language` says otherwise.",
			"kind: if\nwhen: total >\n",
			"kind: if\nwhen: self.total > 100\n"},
		{CodeUnknownLanguage, "unknown language",
			"Code is written in one of the languages that `uniflow describe snippet` lists under `language`.",
			"kind: snippet\nlanguage: basic\ncode: pong\n",
			"kind: snippet\nlanguage: text\ncode: pong\n"},
		{CodeImport, "module that cannot be imported",
			"JavaScript and TypeScript import modules by a path relative to the document. They are read when the workflow is compiled; nothing is fetched.",
			"", ""},
	}
}

func lintEntries() []Entry {
	return []Entry{
		{CodeNoLanguage, "snippet without a language",
			"Without `language`, a snippet is plain text: it answers its code as it stands. If that is meant, say so.",
			"kind: snippet\ncode: 1 + 1\n",
			"kind: snippet\nlanguage: cel\ncode: 1 + 1\n"},
		{CodeUnreachable, "node that nothing reaches",
			"No link leads to the node and it starts nothing by itself, so it never does anything.",
			"- {kind: listener, name: a, protocol: http, port: 8000}\n- {kind: snippet, name: b, language: text, code: pong}\n",
			"- kind: listener\n  name: a\n  protocol: http\n  port: 8000\n  ports: {out: [{name: b, port: in}]}\n- {kind: snippet, name: b, language: text, code: pong}\n"},
		{CodeOlderForm, "older form",
			"The spec is written in an older form, which still loads. `uniflow fmt` rewrites it.",
			"- kind: snippet\n  name: a\n  language: text\n  code: x\n  links: {out: [{name: b, port: io}]}\n- {kind: nop, name: b}\n",
			"- kind: snippet\n  name: a\n  language: text\n  code: x\n  ports: {out: [{name: b, port: in}]}\n- {kind: nop, name: b}\n"},
		{CodeUnusedEnv, "env that nothing uses",
			"A key of `env` occurs in no template of the spec.",
			"kind: snippet\nlanguage: text\nenv: {NAME: {data: world}}\ncode: hello\n",
			"kind: snippet\nlanguage: text\nenv: {NAME: {data: world}}\ncode: hello {{ .NAME }}\n"},
		{CodeEndless, "cycle that nothing leaves",
			"Each node of the cycle sends only to nodes of the cycle, so a payload goes round until its process has used up its budget. Link one of the out-ports to a node outside, or add an `if` that ends it.",
			"- {kind: snippet, name: a, language: cel, code: self, ports: {out: [{name: b}]}}\n- {kind: snippet, name: b, language: cel, code: self, ports: {out: [{name: a}]}}\n",
			"- {kind: snippet, name: a, language: cel, code: self + 1, ports: {out: [{name: b}]}}\n- {kind: if, name: b, when: self < 9, ports: {\"out[0]\": [{name: a}], \"out[1]\": []}}\n"},
		{CodeNotTemplate, "template without env",
			"A string has the form of a template, such as `{{ .KEY }}`, but the spec has no `env`: the braces stay as they are. Bind the keys in `env`, also to render a template that takes its values from the environment.",
			"kind: snippet\nlanguage: text\ncode: hello {{ .NAME }}\n",
			"kind: snippet\nlanguage: text\nenv: {NAME: {data: world}}\ncode: hello {{ .NAME }}\n"},
	}
}

func runEntries() []Entry {
	return []Entry{
		{CodePanic, "panic in a node",
			"The code of a node failed in a way that it did not foresee. The process ends with an error; all others go on. The stack is in the log. This is a bug of the kind: please report it.", "", ""},
		{CodePendingPackets, "too many pending packets",
			"A process has more packets waiting than its budget allows (100,000 unless set). A cycle that makes two packets of one does that.", "", ""},
		{CodePendingBytes, "too many pending bytes",
			"The payloads that wait in a process are larger than its budget allows (64 MiB unless set).", "", ""},
		{CodeDeliveries, "too many deliveries",
			"A process has delivered more packets in all than its budget allows (10 million unless set). A cycle that never ends does that, also with a single packet going round.", "", ""},
		{CodeCancelled, "process cancelled",
			"The client has left, or the grace of a shutdown is over. What the process had opened is released.", "", ""},
		{CodeMisuse, "node that misuses its contract",
			"A node did what its kind must not do, such as sending to a port that it does not have. This is a bug of the kind: please report it.", "", ""},
		{CodeTimeout, "timeout",
			"Something took longer than its `timeout` allows.", "", ""},
		{CodeBug, "bug of the engine",
			"Something happened that should be impossible. Please report it with the document and the log.", "", ""},
	}
}
