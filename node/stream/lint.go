package stream

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
)

// LintTLS is the Lint of kinds with a field tls.skip_verify: it warns of certificates
// that are not verified.
func LintTLS(specs []node.WrittenSpec) (list diag.List) {
	for _, s := range specs {
		if skip := s.Config.Field("tls").Field("skip_verify"); skip != nil && skip.Text.Code != "false" && !skip.Value.IsNull() {
			list.Add(s.Finding(skip.Pos, "tls.skip_verify", diag.Warningf(diag.CodeInsecure, "the certificate of the other side is not verified").
				WithHint("put the certificate of its authority into tls.ca")))
		}
	}
	return list
}
