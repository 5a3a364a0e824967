package diag

// Codes of what can be wrong with code in a document.
const (
	CodeSyntax          Code = "F4001"
	CodeUnknownLanguage Code = "F4002"
	CodeImport          Code = "F4003"
)

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
			"Scripts import modules by a path relative to the document. The modules are read when the workflow is compiled; nothing is downloaded.",
			"", ""},
	}
}
