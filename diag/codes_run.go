package diag

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
	CodeBug            Code = "F9001"
)

func runEntries() []Entry {
	return []Entry{
		{CodePanic, "panic in a node",
			"The code of a node panicked. The process ends with an error; all others continue. The stack is in the log. This is a bug of the kind: please report it.", "", ""},
		{CodePendingPackets, "too many pending packets",
			"A process has more packets waiting than its budget allows (100,000 unless set). The cause may be a cycle that makes two packets of one.", "", ""},
		{CodePendingBytes, "too many pending bytes",
			"The payloads that wait in a process are larger than its budget allows (64 MiB unless set).", "", ""},
		{CodeDeliveries, "too many deliveries",
			"A process has delivered more packets in total than its budget allows (10 million unless set). The cause may be a cycle that never ends, even with a single packet.", "", ""},
		{CodeCancelled, "process cancelled",
			"The client has left, or the grace of a shutdown is over. The resources of the process are released.", "", ""},
		{CodeMisuse, "node that misuses its contract",
			"The code of a node did something invalid, such as sending to a port that it does not have. This is a bug of the kind: please report it.", "", ""},
		{CodeTimeout, "timeout",
			"Something took longer than its `timeout` allows.", "", ""},
		{CodeAssert, "failed assertion",
			"An `assert` of a test found another payload than it expects, or none. `uniflow test` shows what it found.", "", ""},
		{CodeBug, "bug of the engine",
			"Something happened that should be impossible. Please report it with the document and the log.", "", ""},
	}
}
