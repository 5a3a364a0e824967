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
	CodeNotShared     Code = "F2040"
)

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
	CodeEndless     Code = "F5005"
	CodeNotTemplate Code = "F5006"
	CodeInsecure    Code = "F5007"
	CodeStatement   Code = "F5008"

	CodeUnseenStatus    Code = "F5009"
	CodeCommittedBefore Code = "F5010"
	CodePassedBack      Code = "F5011"
	CodeCredential      Code = "F5012"
	CodeNotStored       Code = "F5013"

	CodeNoUnit        Code = "F5040"
	CodeUnknownMethod Code = "F5041"
	CodeNoDeadLetters Code = "F5042"
	CodeNoFile        Code = "F5043"
	CodeUnrouted      Code = "F5044"
	CodeNoEffect      Code = "F5045"
	CodeNotCondition  Code = "F5020"
	CodeKeyTwice      Code = "F5021"
	CodeKeyNotText    Code = "F5022"
	CodeNoFormat      Code = "F5023"
	CodeNoDefault     Code = "F5024"
	CodeNoField       Code = "F5025"
)

// Codes of failures at run time; CodeBug is one of the engine itself.
const (
	CodePanic          Code = "F7001"
	CodePendingPackets Code = "F7002"
	CodePendingBytes   Code = "F7003"
	CodeDeliveries     Code = "F7004"
	CodeCancelled      Code = "F7005"
	CodeMisuse         Code = "F7006"
	CodeTimeout        Code = "F7007"
	CodeAssert         Code = "F7008"
	CodeRecords        Code = "F7009"
	CodeRecordBytes    Code = "F7010"
	CodeBug            Code = "F9001"
)
