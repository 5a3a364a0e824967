package diag

// Codes of what can be wrong with names and links.
const (
	CodeUnknownTarget Code = "F3001"
	CodeUnknownPort   Code = "F3002"
	CodePortIndex     Code = "F3003"
	CodePortGap       Code = "F3004"
	CodeDuplicateName Code = "F3005"
	CodeDuplicateID   Code = "F3006"
	CodeBadLink       Code = "F3007"
	CodeUnlinked      Code = "F3008"
	CodeSubgraph      Code = "F3009"
)

func linkEntries() []Entry {
	return []Entry{
		{CodeUnknownTarget, "link to an unknown node",
			"A link leads to a node by its name, or its id, within the same namespace.",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{name: pnog, port: in}]}\n- {kind: nop, name: pong}\n",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{name: pong, port: in}]}\n- {kind: nop, name: pong}\n"},
		{CodeUnknownPort, "unknown port",
			"The sending node has no such out-port, or the receiving node has no such in-port. `uniflow describe KIND` lists the ports. Every kind with out-ports has `error`, too, and every node has `init`, `active`, `deactive` and `deinit`.",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {output: [{name: b, port: in}]}\n- {kind: nop, name: b}\n",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{name: b, port: in}]}\n- {kind: nop, name: b}\n"},
		{CodePortIndex, "port index out of range",
			"With the node's config, the port has fewer indexes: nothing would ever be sent there.",
			"- kind: if\n  name: a\n  when: \"true\"\n  ports: {\"out[2]\": [{name: b, port: in}]}\n- {kind: nop, name: b}\n",
			"- kind: if\n  name: a\n  when: \"true\"\n  ports: {\"out[1]\": [{name: b, port: in}]}\n- {kind: nop, name: b}\n"},
		{CodePortGap, "gap in the port indexes",
			"The kind uses its ports in order, so the linked indexes must start at 0 and have no gaps.",
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
			"A link needs the node that it leads to: either its `name` or its `id`, not both.",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{port: in}]}\n",
			"- kind: snippet\n  name: a\n  code: x\n  ports: {out: [{name: b, port: in}]}\n- {kind: nop, name: b}\n"},
		{CodeUnlinked, "out-port in use without a link",
			"A route or a match of the node sends to this out-port, and `ports` does not have it. A payload that is sent there becomes the response, so a client would get its own request back. Nearly always the index is wrong; if you mean it, write the port with an empty list. For the `default` of a switch, and for an `if` without any link, it is a warning.",
			"- kind: router\n  name: a\n  routes: [{method: GET, path: /, port: \"out[1]\"}]\n  ports: {\"out[0]\": [{name: b, port: in}]}\n- {kind: nop, name: b}\n",
			"- kind: router\n  name: a\n  routes: [{method: GET, path: /, port: \"out[0]\"}, {method: POST, path: /, port: \"out[1]\"}]\n  ports: {\"out[0]\": [{name: b, port: in}], \"out[1]\": []}\n- {kind: nop, name: b}\n"},
		{CodeSubgraph, "sub-graph that cannot be built",
			"The specs within a spec do not fit together: a step has specs after one that sends nothing on, a template uses itself or is within another spec, or sub-graphs are too deep or too many.",
			"- kind: step\n  name: a\n  specs: [{kind: throw}, {kind: snippet, code: x, language: text}]\n",
			"- kind: step\n  name: a\n  specs: [{kind: snippet, code: x, language: text}, {kind: throw}]\n"},
	}
}
