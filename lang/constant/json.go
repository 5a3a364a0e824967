package constant

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// A JSON is the language of JSON texts. The zero JSON is ready to use.
type JSON struct{}

// Compile implements [lang.Language]. It warns of the first name that an object has twice.
func (JSON) Compile(code diag.Text, opts lang.Options) (lang.Program, error) {
	v, err := value.ParseJSON([]byte(code.Code))
	var bad *value.JSONError
	switch {
	case err == nil:
		if opts.Warn != nil {
			_, twice := value.ParseJSONWith([]byte(code.Code), value.JSONOptions{RejectDuplicates: true})
			if errors.As(twice, &bad) {
				d := diag.Warningf(diag.CodeKeyTwice, "the name occurs twice in the object").WithHint("remove one of the two, or rename it")
				_, d.Pos = place(code, bad)
				opts.Warn(d)
			}
		}
		return program{v}, nil
	case !errors.As(err, &bad):
		return nil, lang.Syntax(code, 1, 1, "%v", err)
	}
	d := lang.Syntax(code, 1, 1, "JSON: %s", bad.Msg)
	offset, pos := place(code, bad)
	d.Pos = pos
	if hint := instead(code.Code[:offset], code.Code[offset:], bad.Msg); hint != "" && !code.Hidden {
		d.WithHint("%s", hint)
	}
	return nil, d
}

// place returns where the code is wrong: in bytes, and in the document.
func place(code diag.Text, bad *value.JSONError) (offset int, pos diag.Pos) {
	offset = min(bad.Offset, len(code.Code))
	col := 1 + utf8.RuneCountInString(code.Code[max(0, offset-(bad.Col-1)):offset])
	return offset, code.Pos(bad.Line, col)
}

// foreign has what other languages write where JSON has something else.
var foreign = []struct{ begins, hint string }{
	{"//", "remove the comment: JSON has none; under language: yaml one begins with #"},
	{"/*", "remove the comment: JSON has none; under language: yaml one begins with #"},
	{"#", "remove the comment: JSON has none; language: yaml takes JSON with such comments"},
	{"'", `write "…": JSON has double quotes only`},
	{"`", `write "…": JSON has double quotes only`},
	{"“", `write "…": JSON has straight quotes only`},
	{"”", `write "…": JSON has straight quotes only`},
	{"=", "write : between a name and its value"},
	{";", "write , between values, and nothing after the last one"},
	{"+", "write a number without +"},
	{"...", "there is no spread: write the fields out, or use language: cel"},
	{".", "write a digit before the point, such as 0.5"},
}

// elsewhere has what other languages call the words of JSON.
var elsewhere = map[string]string{
	"none": "null", "nil": "null", "undefined": "null", "null": "null", "nan": "null", "infinity": "null",
	"true": "true", "false": "false", "yes": "true", "no": "false",
}

var word = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\pL_$][\pL\pN_$-]*`) })

// instead returns what to write in place of rest, which follows what has been read.
func instead(read, rest, msg string) string {
	read = strings.TrimRight(read, " \t\r\n")
	if strings.HasSuffix(read, ",") && (strings.HasPrefix(rest, "}") || strings.HasPrefix(rest, "]")) {
		return "remove the comma before it: there is none after the last value"
	}
	for _, f := range foreign {
		if strings.HasPrefix(rest, f.begins) && strings.HasPrefix(msg, "unexpected") {
			return f.hint
		}
	}
	name := word().FindString(rest)
	switch {
	case strings.HasSuffix(read, "{") && strings.HasPrefix(rest, "{"):
		return "a template is put in before the text is read: set env for the node"
	case strings.HasSuffix(msg, "a name in quotes") && name != "":
		return fmt.Sprintf("write %q", name)
	case strings.HasSuffix(msg, "a value") && elsewhere[strings.ToLower(name)] != "":
		return "write " + elsewhere[strings.ToLower(name)]
	case strings.HasSuffix(msg, "a value") && name != "":
		return fmt.Sprintf("write %q if it is a text", name)
	case strings.HasSuffix(msg, "end of text") && (rest[0] == '}' || rest[0] == ']'):
		return "remove it: it closes nothing"
	case strings.HasSuffix(msg, "end of text"):
		return "there is one value: write several as a list, [1, 2]"
	case rest == "" && msg == "string without end":
		return `close it with "`
	case rest == "" && read == "":
		return "write a value, such as null"
	case rest == "":
		return "close what was opened: { with }, [ with ]"
	case strings.HasSuffix(read, "0") && strings.HasPrefix(rest, "x"):
		return "write the number with the digits 0 to 9"
	case strings.HasPrefix(msg, "unexpected") && strings.Contains(msg, "','"):
		return "write , before it"
	case strings.HasPrefix(msg, "control character"):
		return `a line break within a text is written \n, a tab \t`
	case strings.HasPrefix(msg, "unknown escape"):
		return `a backslash is written \\`
	case msg == "a number starts with 0":
		return "leave out the 0 in front, or write it as a text"
	}
	return ""
}
