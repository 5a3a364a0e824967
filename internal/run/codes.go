package run

// Codes of run-time findings; the catalogue explains them.
const (
	codePanic          = "F7001"
	codePendingPackets = "F7002"
	codePendingBytes   = "F7003"
	codeDeliveries     = "F7004"
	codeMisuse         = "F7006"
)
