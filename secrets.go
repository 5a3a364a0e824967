package uniflow

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/spec"
)

// Redact returns a text without the secrets of what the engine has compiled: the data of
// secret variables, and fields that kinds declare as secret. The engine does so itself
// with what it logs, returns as findings and errors, and records.
func (e *Engine) Redact(text string) string { return e.secrets.Text(text) }

// secretsOf returns what the secret fields of specs hold.
func secretsOf(nodes []*spec.Node, kinds *registry.Registry) (texts []string) {
	for _, n := range nodes {
		if def, ok := kinds.Kind(n.Kind); ok {
			texts = append(texts, def.Config.Secrets(n.Config)...)
		}
	}
	return texts
}

// redact hides secrets in findings, and keeps lines with secrets out of their rendering.
func (e *Engine) redact(list diag.List, source Source) diag.List {
	list = e.secrets.Findings(list)
	lines := make(map[string][][]byte)
	for _, d := range list {
		at, split := lines[d.Pos.File]
		if !split {
			i := slices.IndexFunc(source.Documents, func(doc spec.Document) bool { return doc.File == d.Pos.File })
			if i >= 0 {
				at = bytes.Split(source.Documents[i].Data, []byte("\n"))
			}
			lines[d.Pos.File] = at
		}
		if !d.Private && d.Pos.IsValid() && d.Pos.Line <= len(at) {
			line := string(at[d.Pos.Line-1])
			d.Private = e.secrets.Text(line) != line || d.Code == diag.CodeYAML && e.secretField().MatchString(line)
		}
	}
	return list
}

// secretFields matches a line of a document that may give a secret field a value. It is
// for documents that cannot be read, so that their fields are not known.
func secretFields(kinds *registry.Registry) *regexp.Regexp {
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
