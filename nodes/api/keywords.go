package api

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/schema"
)

// What the value of a keyword is.
type below uint8

const (
	plain  below = iota // not a schema
	one                 // a schema
	many                // a list of schemas
	byName              // a map of schemas
)

// keywordsOf returns the keywords of draft 2020-12, and those that OpenAPI adds.
func keywordsOf() map[string]below {
	all := map[string]below{
		"not": one, "if": one, "then": one, "else": one, "additionalProperties": one, "propertyNames": one, "unevaluatedProperties": one,
		"contains": one, "items": one, "unevaluatedItems": one, "contentSchema": one,
		"allOf": many, "anyOf": many, "oneOf": many, "prefixItems": many,
		"$defs": byName, "definitions": byName, "properties": byName, "patternProperties": byName, "dependentSchemas": byName,
	}
	for _, name := range []string{
		"$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment", "$vocabulary",
		"type", "enum", "const", "format", "minProperties", "maxProperties", "required", "dependentRequired",
		"minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minLength", "maxLength", "pattern",
		"contentEncoding", "contentMediaType", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
		"example", "discriminator", "externalDocs", "xml",
	} {
		all[name] = plain
	}
	return all
}

// unknownKeywords finds keywords that JSON Schema does not have: it would ignore them, and
// what their author has meant to be checked would not be.
func unknownKeywords(c schema.Config, raw *schema.Raw) (found diag.List) {
	keywords := keywordsOf()
	var walk func(raw *schema.Raw)
	walk = func(raw *schema.Raw) {
		if raw == nil {
			return
		}
		for _, f := range raw.Fields {
			holds, known := keywords[f.Name]
			switch {
			case !known && !strings.HasPrefix(f.Name, "x-"):
				d := c.Errorf("schema", diag.CodeBadValue, "%q is not a keyword of JSON Schema", clip(f.Name)).WithHint("%s", keywordHint(keywords, f.Name))
				d.Pos = f.Pos
				found.Add(d)
			case holds == one:
				walk(f.Value)
			case holds == many:
				for _, item := range f.Value.Items {
					walk(item)
				}
			case holds == byName:
				for _, item := range f.Value.Fields {
					walk(item.Value)
				}
			}
		}
	}
	walk(raw)
	return found
}

func keywordHint(keywords map[string]below, name string) string {
	if name == "nullable" {
		return "write type: [string, \"null\"], or the type that is meant"
	}
	if known, ok := spell.Nearest(name, slices.Sorted(maps.Keys(keywords))); ok {
		return "write " + known
	}
	return "see https://json-schema.org/draft/2020-12, or begin the name with x- if it is a note"
}

// schemaError says what is wrong with a schema, and where in the document.
func schemaError(c schema.Config, raw *schema.Raw, err error) error {
	var invalid *jsonschema.SchemaValidationError
	var regex *jsonschema.InvalidRegexError
	var pointer *jsonschema.JSONPointerNotFoundError
	var anchor *jsonschema.AnchorNotFoundError
	var draft *jsonschema.UnsupportedDraftError
	var load *jsonschema.LoadURLError
	switch {
	case errors.As(err, &invalid):
		var cause *jsonschema.ValidationError
		if errors.As(invalid.Err, &cause) {
			cause = leaf(cause)
			d := at(c, raw, "#/"+strings.Join(cause.InstanceLocation, "/"))
			if f, ok := cause.ErrorKind.(*kind.Format); ok && f.Want == "regex" {
				return notRegex(d, f.Err)
			}
			d.Msg = "not a schema: " + clip(describeKind(cause))
			return d
		}
	case errors.As(err, &regex):
		return notRegex(at(c, raw, regex.URL), regex.Err)
	case errors.As(err, &pointer):
		d := at(c, raw, pointer.URL)
		d.Msg = "$ref: the schema has nothing at " + strconv.Quote(fragment(pointer.URL))
		return d
	case errors.As(err, &anchor):
		d := at(c, raw, anchor.URL)
		d.Msg = "$ref: the schema has no anchor " + strconv.Quote(clip(fragment(anchor.Reference)))
		return d
	case errors.As(err, &load):
		return c.Errorf("schema", diag.CodeBadValue, "a $ref or a $schema leads out of the schema, and nothing is loaded").
			WithHint("copy that schema below $defs, and write $ref: '#/$defs/NAME'")
	case errors.As(err, &draft):
		return c.Errorf("schema", diag.CodeBadValue, "$schema: another draft than 2020-12").WithHint("remove $schema")
	}
	return c.Errorf("schema", diag.CodeBadValue, "%s", clip(strings.ReplaceAll(err.Error(), schemaURL, "")))
}

func notRegex(d *diag.Diagnostic, err error) error {
	d.Msg = "not a regular expression: " + clip(err.Error())
	return d.WithHint("write one as Go knows them: https://pkg.go.dev/regexp/syntax has no look-ahead and no back-references")
}

// leaf returns the innermost of an error's first causes.
func leaf(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	return e
}

// at returns a finding at the part of the schema that a URL with a JSON Pointer names, or
// as close as there is one.
func at(c schema.Config, raw *schema.Raw, url string) *diag.Diagnostic {
	d := c.Errorf("schema", diag.CodeBadValue, "the schema is not of draft 2020-12")
	for token := range strings.SplitSeq(strings.TrimPrefix(fragment(url), "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		next := raw.Field(token)
		if i, err := strconv.Atoi(token); err == nil && raw != nil && i >= 0 && i < len(raw.Items) {
			next = raw.Items[i]
		}
		if next == nil {
			break
		}
		raw = next
		d.Pos, d.Path = raw.Pos, d.Path+"."+token
	}
	return d
}

func fragment(url string) string {
	_, after, _ := strings.Cut(url, "#")
	return after
}

// hasTemplate reports whether a template made a part of a document, which may be a secret.
func hasTemplate(raw *schema.Raw) bool {
	if raw == nil {
		return false
	}
	return raw.Templated || slices.ContainsFunc(raw.Items, hasTemplate) ||
		slices.ContainsFunc(raw.Fields, func(f schema.RawField) bool { return hasTemplate(f.Value) })
}

// clip returns a text, or its beginning if it is long.
func clip(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
