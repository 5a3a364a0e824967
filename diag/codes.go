package diag

// Codes of what can be wrong with the text of a document.
const (
	CodeYAML            Code = "F1001" // not YAML
	CodeNotSpec         Code = "F1002" // neither a spec nor a list of specs
	CodeDuplicateKey    Code = "F1003" // a key stands in a map twice
	CodeCommonField     Code = "F1004" // a field common to all kinds has the wrong type
	CodeMissingKind     Code = "F1005" // a spec has no kind
	CodeLimit           Code = "F1006" // too large, too deep, or aliases that multiply
	CodeAlias           Code = "F1007" // an alias of nothing, or of itself
	CodeKey             Code = "F1008" // a key that is no string
	CodeID              Code = "F1009" // an id that is no UUID
	CodeTemplate        Code = "F1010" // a template that cannot be read or rendered
	CodeTemplateKey     Code = "F1011" // a template uses a key that env does not bind
	CodeUnknownVariable Code = "F1012" // env refers to a variable that is not there
	CodeScalar          Code = "F1013" // a scalar that its tag does not fit
	CodeOldAndNew       Code = "F1014" // the same thing in the older and in today's form
	CodeEntryField      Code = "F1015" // an unknown field of a link, an env entry or a variable
	CodeRead            Code = "F1016" // a file cannot be read
	CodeVariable        Code = "F1017" // a variable without a name, or there twice
	CodeName            Code = "F1018" // a name that cannot be one
	CodeEmpty           Code = "F1019" // a document without a spec
)

// Codes of what can be wrong with a node's own fields.
const (
	CodeUnknownField  Code = "F2001"
	CodeMissingField  Code = "F2002"
	CodeWrongType     Code = "F2003"
	CodeOutOfRange    Code = "F2004"
	CodeNotOneOf      Code = "F2005"
	CodeUnknownKind   Code = "F2006"
	CodeBadNode       Code = "F2007" // the node cannot be made or closed
	CodeRouteConflict Code = "F2008"
	CodeBadRoute      Code = "F2009"
	CodeBadOutPort    Code = "F2010"
	CodeBadDuration   Code = "F2011"
	CodeBadSize       Code = "F2012"
	CodeBadValue      Code = "F2013" // of the right type, but of no use here
	CodeSameAddress   Code = "F2014" // two nodes listen at one address
)

// Codes of what can be wrong with names and links.
const (
	CodeUnknownTarget Code = "F3001"
	CodeUnknownPort   Code = "F3002"
	CodePortIndex     Code = "F3003"
	CodePortGap       Code = "F3004"
	CodeDuplicateName Code = "F3005"
	CodeDuplicateID   Code = "F3006"
	CodeBadLink       Code = "F3007" // a link without a target, or with two
	CodeUnlinked      Code = "F3008" // the config sends to an out-port that is not in ports
)

// Codes of what can be wrong with code in a document.
const (
	CodeSyntax          Code = "F4001"
	CodeUnknownLanguage Code = "F4002"
	CodeImport          Code = "F4003"
)

// Codes of what is allowed but probably not meant.
const (
	CodeNoLanguage  Code = "F5001"
	CodeUnreachable Code = "F5002"
	CodeOlderForm   Code = "F5003"
	CodeUnusedEnv   Code = "F5004"
	CodeEndless     Code = "F5005" // a cycle that nothing leaves
	CodeNotTemplate Code = "F5006" // what looks like a template, without env
)

// Codes of failures at run time.
const (
	CodePanic          Code = "F7001"
	CodePendingPackets Code = "F7002"
	CodePendingBytes   Code = "F7003"
	CodeDeliveries     Code = "F7004"
	CodeCancelled      Code = "F7005"
	CodeMisuse         Code = "F7006"
	CodeTimeout        Code = "F7007"
)

// CodeBug is a failure of the engine itself.
const CodeBug Code = "F9001"

// An Entry is what `uniflow explain` tells about a code.
type Entry struct {
	Code        Code
	Title       string // one line, without a full stop
	Explanation string // Markdown
	Bad         string // a YAML document that has the finding; empty where no document can show it
	Good        string // the same put right
}
