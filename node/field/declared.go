package field

import "github.com/uniflow-labs/uniflow/schema"

// Declared is a field in which a kind that declares kinds, such as template, lists the fields
// of what it declares. The engine makes fields of them.
func Declared(name string) *schema.Field {
	return schema.List(name, schema.Fields(
		schema.String("name").Required().Doc("The name of the field."),
		schema.Enum("type", "string", "text", "integer", "number", "boolean", "duration", "size", "strings", "any").Default("string").Doc("The type of the field."),
		schema.Any("default").Doc("The value if the field is left out. Without a default, the field is required."),
		schema.String("doc").Doc("What the field means, in Markdown."),
		schema.Strings("words").Doc("The only words that a string may be."),
		schema.Bool("secret").Default(false).Doc("Keeps the value out of all messages."),
	)).Doc("The fields of the kind.")
}
