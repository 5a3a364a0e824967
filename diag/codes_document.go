package diag

// Codes of what can be wrong with the text of a document.
const (
	CodeYAML            Code = "F1001"
	CodeNotSpec         Code = "F1002"
	CodeDuplicateKey    Code = "F1003"
	CodeCommonField     Code = "F1004"
	CodeMissingKind     Code = "F1005"
	CodeLimit           Code = "F1006"
	CodeAlias           Code = "F1007"
	CodeKey             Code = "F1008"
	CodeID              Code = "F1009"
	CodeTemplate        Code = "F1010"
	CodeTemplateKey     Code = "F1011"
	CodeUnknownVariable Code = "F1012"
	CodeScalar          Code = "F1013"
	CodeOldAndNew       Code = "F1014"
	CodeEntryField      Code = "F1015"
	CodeRead            Code = "F1016"
	CodeVariable        Code = "F1017"
	CodeName            Code = "F1018"
	CodeEmpty           Code = "F1019"
)

func documentEntries() []Entry {
	return []Entry{
		{CodeYAML, "not YAML",
			"The document is neither YAML nor JSON. The place is where reading had to stop; the mistake may be a line or two before it: a bracket or a quote that is not closed, or a line with one space of indentation too few. Indent with spaces, not with tabs.",
			"kind: snippet\nname: [pong\ncode: pong\n",
			"kind: snippet\nname: pong\ncode: pong\n"},
		{CodeNotSpec, "not a spec",
			"A document holds one spec, which is a map of fields, or a list of specs.",
			"- pong\n",
			"- kind: snippet\n  name: pong\n  code: pong\n"},
		{CodeDuplicateKey, "key written twice",
			"A map has the same key twice. It is unknown which of the two was meant, so neither is used.",
			"kind: snippet\nname: a\nname: b\ncode: x\n",
			"kind: snippet\nname: a\ncode: x\n"},
		{CodeCommonField, "common field of the wrong type",
			"`id`, `kind`, `namespace` and `name` are strings, `annotations` and `env` are maps, and `ports` is a map from out-ports to lists of links. A name of digits needs quotes.",
			"kind: snippet\nname: 42\ncode: x\n",
			"kind: snippet\nname: \"42\"\ncode: x\n"},
		{CodeMissingKind, "spec without a kind",
			"Every spec needs the kind of its node. `uniflow list` shows the kinds.",
			"name: pong\ncode: pong\n",
			"kind: snippet\nname: pong\ncode: pong\n"},
		{CodeLimit, "document too large",
			"A document has at most 16 MiB, nests at most 100 levels deep, and its aliases may not multiply it without bounds. A template makes at most 16 MiB of text. Split the document into several files.",
			"", ""},
		{CodeAlias, "alias of nothing or of itself",
			"An alias such as `*base` repeats the value that has the anchor `&base`. It cannot be before its anchor or inside its value.",
			"kind: snippet\ncode: *text\n",
			"kind: snippet\nannotations: {note: &text pong}\ncode: *text\n"},
		{CodeKey, "key that is not text",
			"Keys of maps are text. A list, a map or null cannot be one.",
			"kind: snippet\ncode: x\n? [a, b]\n: c\n",
			"kind: snippet\ncode: x\n"},
		{CodeID, "id that is not a UUID",
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
		{CodeUnknownVariable, "unknown variable",
			"An entry of `env` with a `name` or `id` takes a variable of the node's namespace from the values files (`--from-values`). Any other entry takes its value from the environment that was given at start (`--environment KEY=VALUE`).",
			"kind: snippet\nenv: {NAME: {name: unknown}}\ncode: hello {{ .NAME }}\n",
			"kind: snippet\nenv: {NAME: {data: world}}\ncode: hello {{ .NAME }}\n"},
		{CodeScalar, "value that does not fit its tag",
			"A tag such as `!!int` sets the type of a value, and the value does not have that type; or the tag is unknown; or an integer has more than 64 bits. Tags are rarely needed: put text in quotes.",
			"kind: snippet\ncode: !!int pong\n",
			"kind: snippet\ncode: pong\n"},
		{CodeOldAndNew, "older and current form together",
			"A spec has a field of the older form (`links`, `address`) and its successor (`ports`, `host` and `port`). `uniflow fmt` rewrites the older form where there is no doubt.",
			"kind: nop\nlinks: {}\nports: {}\n",
			"kind: nop\nports: {}\n"},
		{CodeEntryField, "unknown field of an entry",
			"A link has the fields `id`, `name` and `port`; an entry of `env` has `id`, `name` and `data`; a variable has `id`, `namespace`, `name`, `annotations` and `data`.",
			"- kind: snippet\n  name: a\n  code: x\n  ports:\n    out: [{nmae: b, port: in}]\n- {kind: nop, name: b}\n",
			"- kind: snippet\n  name: a\n  code: x\n  ports:\n    out: [{name: b, port: in}]\n- {kind: nop, name: b}\n"},
		{CodeRead, "file that cannot be read",
			"A given file or folder cannot be opened or read, or a folder contains no document.", "", ""},
		{CodeVariable, "variable that cannot be used",
			"A values file holds variables: maps with a `name` or an `id`, and with `data`. Within a namespace, names and ids are unique.",
			"", ""},
		{CodeName, "invalid name",
			"A name is not empty, has no spaces at its ends and no line breaks, and is at most 256 bytes long.",
			"kind: snippet\nname: \"\"\ncode: x\n",
			"kind: snippet\nname: x\ncode: x\n"},
		{CodeEmpty, "document without a spec",
			"The file is empty, or has only comments. It adds nothing to the workflow.",
			"", ""},
	}
}
