package inspect

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/spec"
)

// Secrets returns what the secret fields of specs hold.
func Secrets(nodes []*spec.Node, kinds *registry.Registry) (texts []string) {
	for _, n := range nodes {
		if def, ok := kinds.Kind(n.Kind); ok {
			texts = append(texts, def.Config.Secrets(n.Config)...)
		}
	}
	return texts
}

// Redact hides secrets in findings, and keeps lines with secrets out of their rendering. In a
// document that cannot be read, lines that match field are left out as well.
func Redact(list diag.List, documents []spec.Document, secrets *redact.Secrets, field func() *regexp.Regexp) diag.List {
	list = secrets.Findings(list)
	lines := make(map[string][][]byte)
	for _, d := range list {
		at, split := lines[d.Pos.File]
		if !split {
			i := slices.IndexFunc(documents, func(doc spec.Document) bool { return doc.File == d.Pos.File })
			if i >= 0 {
				at = bytes.Split(documents[i].Data, []byte("\n"))
			}
			lines[d.Pos.File] = at
		}
		if !d.Private && d.Pos.IsValid() && d.Pos.Line <= len(at) {
			line := string(at[d.Pos.Line-1])
			d.Private = secrets.Plain(line) != line || d.Code == diag.CodeYAML && field().MatchString(line)
		}
	}
	return list
}

// SecretFields matches a line of a document that may give a secret field a value. It is
// for documents that cannot be read, so that their fields are not known.
func SecretFields(kinds *registry.Registry) *regexp.Regexp {
	names := []string{"password", "secret", "token"}
	for _, kind := range kinds.Kinds() {
		def, _ := kinds.Kind(kind)
		names = append(names, def.Config.SecretNames()...)
	}
	for i, name := range names {
		names[i] = regexp.QuoteMeta(name)
	}
	return regexp.MustCompile(`(?i)\b(` + strings.Join(names, "|") + `)\b["']?\s*:`)
}
