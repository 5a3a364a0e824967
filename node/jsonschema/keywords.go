package jsonschema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
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

// checkedFormats are the formats that are checked.
var checkedFormats = []string{
	"email", "date", "date-time", "time", "duration", "period", "uuid", "uri", "uri-reference", "uri-template", "iri", "iri-reference",
	"hostname", "ipv4", "ipv6", "json-pointer", "relative-json-pointer", "regex", "semver",
}

// notedFormats are formats of OpenAPI that tell readers something, and check nothing.
var notedFormats = []string{"int32", "int64", "float", "double", "byte", "binary", "password"}

// unknownWords finds keywords that JSON Schema does not have: it would ignore them, and
// what their author has meant to be checked would not be. The same is true for formats.
func unknownWords(doc value.Value) (found, formats Mistakes) {
	keywords := keywordsOf()
	var walk func(v value.Value, path string)
	walk = func(v value.Value, path string) {
		for name, field := range v.Fields() {
			below := path + "/" + pointerEscapes.Replace(name)
			holds, known := keywords[name]
			switch {
			case len(found) >= maxUnknown:
				return
			case name == "format":
				if format, ok := field.AsString(); ok && len(formats) < maxUnknown && !checks(format) {
					formats = append(formats, Mistake{Path: below, Code: diag.CodeNoFormat, Message: "the format is not known, so nothing is checked", Hint: formatHint(format)})
				}
			case !known && !strings.HasPrefix(name, "x-"):
				found = append(found, Mistake{
					Path: path, Keyword: name, Message: strconv.Quote(node.Clip(name, maxQuote)) + " is not a keyword of JSON Schema", Hint: keywordHint(keywords, name),
				})
			case holds == one:
				walk(field, below)
			case holds == many:
				for i, item := range field.Elems() {
					walk(item, below+"/"+strconv.Itoa(i))
				}
			case holds == byName:
				for name, item := range field.Fields() {
					walk(item, below+"/"+pointerEscapes.Replace(name))
				}
			}
		}
	}
	walk(doc, "")
	return found, formats
}

// checks reports whether a format is checked, or is not meant to be.
func checks(format string) bool {
	return slices.Contains(checkedFormats, format) || slices.Contains(notedFormats, format) || strings.HasPrefix(format, "x-")
}

func formatHint(format string) string {
	if near, ok := spell.Nearest(format, slices.Concat(checkedFormats, notedFormats)); ok {
		return "write " + near
	}
	return "write one of " + strings.Join(checkedFormats, ", ") + "; use pattern for others, or begin the name with x- if it is a note"
}

// maxUnknown bounds the keywords that are named.
const maxUnknown = 20

func keywordHint(keywords map[string]below, name string) string {
	if name == "nullable" {
		return "write type: [string, \"null\"], or the type that is meant"
	}
	if known, ok := spell.Nearest(name, slices.Sorted(maps.Keys(keywords))); ok {
		return "write " + known
	}
	return "see https://json-schema.org/draft/2020-12, or begin the name with x- if it is a note"
}
