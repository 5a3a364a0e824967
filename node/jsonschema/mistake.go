package jsonschema

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	library "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// A Mistake is one thing that is wrong with a schema.
type Mistake struct {
	Path    string // a JSON Pointer into the schema, empty for all of it
	Keyword string // the one at Path that JSON Schema does not have, if that is wrong
	Message string
	Hint    string    // may be empty
	Code    diag.Code // empty is [diag.CodeBadValue]
}

// Mistakes are the error of a schema that is not one. There is at least one of them.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	texts := make([]string, len(m))
	for i, one := range m {
		texts[i] = Problem{one.Path, one.Message}.String()
	}
	return strings.Join(texts, "; ")
}

func mistake(path, message string) Mistakes { return Mistakes{{Path: path, Message: message}} }

// At returns an error of [Compile] as findings at the places of the field whose value was
// compiled, or as close as there is one. hint is for mistakes without one of their own.
func At(c schema.Config, field string, err error, hint string) (found diag.List) {
	var mistakes Mistakes
	if !errors.As(err, &mistakes) {
		mistakes = mistake("", err.Error())
	}
	for _, m := range mistakes {
		d := m.at(c, field)
		if d.Hint == "" {
			d.Hint = hint
		}
		found.Add(d)
	}
	return found
}

// Warn reports mistakes that do no harm to the schema, as warnings at the places of the field
// that it was compiled of. warn may be nil.
func Warn(warn func(*diag.Diagnostic), c schema.Config, field string, mistakes Mistakes) {
	if warn == nil {
		return
	}
	for _, m := range mistakes {
		d := m.at(c, field)
		d.Severity = diag.SeverityWarning
		warn(d)
	}
}

// at returns a finding at the place of a mistake, or as close as there is one.
func (m Mistake) at(c schema.Config, field string) *diag.Diagnostic {
	d := c.Errorf(field, cmp.Or(m.Code, diag.CodeBadValue), "%s", m.Message).WithHint("%s", m.Hint)
	raw := c.Raw(field)
	for token := range strings.SplitSeq(strings.TrimPrefix(m.Path, "/"), "/") {
		token = unescape.Replace(token)
		next := raw.Field(token)
		if i, err := strconv.Atoi(token); err == nil && raw != nil && i >= 0 && i < len(raw.Items) {
			next = raw.Items[i]
		}
		if next == nil {
			break
		}
		raw = next
		d.Pos, d.Path, d.Pointer = raw.Pos, d.Path+"."+token, raw.Pointer
	}
	if raw != nil && m.Keyword != "" {
		for _, f := range raw.Fields {
			if f.Name == m.Keyword {
				d.Pos = f.Pos
			}
		}
	}
	return d
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// mistakesOf says what is wrong with a schema that the library does not compile.
func mistakesOf(err error, hidden bool) Mistakes {
	var invalid *library.SchemaValidationError
	var regex *library.InvalidRegexError
	var pointer *library.JSONPointerNotFoundError
	var anchor *library.AnchorNotFoundError
	var draft *library.UnsupportedDraftError
	var load *library.LoadURLError
	switch {
	case errors.As(err, &invalid):
		var cause *library.ValidationError
		if errors.As(invalid.Err, &cause) {
			return invalidSchema(leaf(cause), hidden)
		}
	case errors.As(err, &regex):
		return notRegex(fragment(regex.URL), regex.Err, hidden)
	case errors.As(err, &pointer):
		return mistake(fragment(pointer.URL), "$ref: the schema has nothing "+unless(hidden, "there", "at "+strconv.Quote(node.Clip(fragment(pointer.URL), maxQuote))))
	case errors.As(err, &anchor):
		return mistake(fragment(anchor.URL), "$ref: the schema has no "+unless(hidden, "such anchor", "anchor "+strconv.Quote(node.Clip(fragment(anchor.Reference), maxQuote))))
	case errors.As(err, &load):
		return Mistakes{{
			Message: "a $ref or a $schema leads out of the schema, and nothing is loaded",
			Hint:    "copy that schema below $defs, and write $ref: '#/$defs/NAME'",
		}}
	case errors.As(err, &draft):
		return Mistakes{{Message: "$schema: another draft than 2020-12", Hint: "remove $schema"}}
	}
	return mistake("", unless(hidden, "not a schema", node.Clip(strings.ReplaceAll(err.Error(), schemaURL, ""), maxQuote)))
}

// invalidSchema says how a schema does not match the schema of schemas.
func invalidSchema(cause *library.ValidationError, hidden bool) Mistakes {
	path := pointerOf(cause.InstanceLocation)
	if f, ok := cause.ErrorKind.(*kind.Format); ok && f.Want == "regex" {
		return notRegex(path, f.Err, hidden)
	}
	return mistake(path, unless(hidden, "not a schema", "not a schema: "+node.Clip(describeKind(cause), maxQuote)))
}

func notRegex(path string, err error, hidden bool) Mistakes {
	return Mistakes{{
		Path: path, Message: unless(hidden, "not a regular expression", "not a regular expression: "+node.Clip(err.Error(), maxQuote)),
		Hint: "write one as Go knows them: https://pkg.go.dev/regexp/syntax has no look-ahead and no back-references",
	}}
}

// unless returns the first text if values must not be shown, else the second.
func unless(hidden bool, without, with string) string {
	if hidden {
		return without
	}
	return with
}

// leaf returns the innermost of an error's first causes.
func leaf(e *library.ValidationError) *library.ValidationError {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	return e
}

// describeKind returns the message of the library for a leaf.
func describeKind(e *library.ValidationError) string { return e.DetailedOutput().Error.String() }

// fragment returns the JSON Pointer or the anchor of a URL.
func fragment(url string) string {
	_, after, _ := strings.Cut(url, "#")
	return after
}

// maxQuote is how many bytes of a schema a mistake quotes.
const maxQuote = 200
