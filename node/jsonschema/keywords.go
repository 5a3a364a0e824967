package jsonschema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

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

// unknownKeywords finds keywords that JSON Schema does not have: it would ignore them, and
// what their author has meant to be checked would not be.
func unknownKeywords(doc value.Value) (found Mistakes) {
	keywords := keywordsOf()
	var walk func(v value.Value, path string)
	walk = func(v value.Value, path string) {
		for name, field := range v.Fields() {
			below := path + "/" + pointerEscapes.Replace(name)
			holds, known := keywords[name]
			switch {
			case len(found) >= maxUnknown:
				return
			case !known && !strings.HasPrefix(name, "x-"):
				found = append(found, Mistake{path, name, strconv.Quote(node.Clip(name, maxQuote)) + " is not a keyword of JSON Schema", keywordHint(keywords, name)})
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
	return found
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
