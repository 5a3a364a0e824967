package diag

// Codes of what can be wrong with a node's own fields.
const (
	CodeUnknownField  Code = "F2001"
	CodeMissingField  Code = "F2002"
	CodeWrongType     Code = "F2003"
	CodeOutOfRange    Code = "F2004"
	CodeNotOneOf      Code = "F2005"
	CodeUnknownKind   Code = "F2006"
	CodeBadNode       Code = "F2007"
	CodeRouteConflict Code = "F2008"
	CodeBadRoute      Code = "F2009"
	CodeBadOutPort    Code = "F2010"
	CodeBadDuration   Code = "F2011"
	CodeBadSize       Code = "F2012"
	CodeBadValue      Code = "F2013"
	CodeSameAddress   Code = "F2014"
)

func configEntries() []Entry {
	return []Entry{
		{CodeUnknownField, "unknown field",
			"The kind has no such field. `uniflow describe KIND` lists the fields. Unknown fields are not ignored, because nearly all of them are spelling mistakes.",
			"kind: snippet\nlangauge: text\ncode: pong\n",
			"kind: snippet\nlanguage: text\ncode: pong\n"},
		{CodeMissingField, "required field missing",
			"The kind cannot work without this field.",
			"kind: snippet\nlanguage: text\n",
			"kind: snippet\nlanguage: text\ncode: pong\n"},
		{CodeWrongType, "value of the wrong type",
			"The field has another type. A string with a number, boolean or duration is accepted as one; a number in place of text needs quotes; one entry is accepted as a list.",
			"kind: throw\nstatus: many\n",
			"kind: throw\nstatus: 404\n"},
		{CodeOutOfRange, "value out of range",
			"The value is of the right type but too small or too large.",
			"kind: throw\nstatus: 42\n",
			"kind: throw\nstatus: 404\n"},
		{CodeNotOneOf, "not one of the allowed words",
			"The field takes one of a few words.",
			"kind: listener\nprotocol: htp\nport: 8000\n",
			"kind: listener\nprotocol: http\nport: 8000\n"},
		{CodeUnknownKind, "unknown kind",
			"There is no kind of this name. `uniflow list` shows the kinds.",
			"kind: snipet\ncode: pong\n",
			"kind: snippet\ncode: pong\n"},
		{CodeBadNode, "node that cannot be made",
			"Each field is valid, but the kind cannot make a node of them together; or the node could not be closed. The message has the reason.", "", ""},
		{CodeRouteConflict, "routes that match the same requests",
			"Two routes have the same method and the same pattern, apart from the names of parameters, so no request would reach the second.",
			"kind: router\nroutes:\n  - {method: GET, path: \"/users/:id\", port: \"out[0]\"}\n  - {method: GET, path: \"/users/:name\", port: \"out[1]\"}\n",
			"kind: router\nroutes:\n  - {method: GET, path: \"/users/:id\", port: \"out[0]\"}\n  - {method: GET, path: \"/users/:id/name\", port: \"out[1]\"}\nports: {\"out[0]\": [], \"out[1]\": []}\n"},
		{CodeBadRoute, "path that is not a route",
			"A path begins with `/`. `:name` matches one segment, `*` or `*name` the rest, `\\:` is a colon. Names within one route differ.",
			"kind: router\nroutes:\n  - {method: GET, path: users, port: \"out[0]\"}\n",
			"kind: router\nroutes:\n  - {method: GET, path: /users, port: \"out[0]\"}\nports: {\"out[0]\": []}\n"},
		{CodeBadOutPort, "not an out-port",
			"The field takes one of the node's numbered out-ports: `out[0]`, `out[1]` and so on; `out` is `out[0]`.",
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
		{CodeBadValue, "value that does not work here",
			"The value has the right type, but the node cannot use it, or not together with another field. The message has the reason.",
			"kind: batch\nurl: localhost:8090\n",
			"kind: batch\nurl: http://localhost:8090/batch\n"},
		{CodeSameAddress, "two nodes at one address",
			"Two nodes of a namespace listen on the same port of the same host. One of them could not start. A node without a `host` listens on all addresses of the machine.",
			"- {kind: listener, name: a, port: 8000}\n- {kind: listener, name: b, port: 8000}\n",
			"- {kind: listener, name: a, port: 8000}\n- {kind: listener, name: b, port: 8001}\n"},
	}
}
