package cel

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/operators"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/lang"
)

// grammar is the prefix of parser messages in terms of the grammar, which do not help a
// user.
const grammar = "Syntax error: "

// diagnose converts the findings of the parser or the checker to diagnostics with places
// in the document. Of syntax errors it reports the first only: the others mostly follow
// from it.
func (l *library) diagnose(code diag.Text, issues *cel.Issues) error {
	var list diag.List
	for _, e := range issues.Errors() {
		if strings.HasPrefix(e.Message, grammar) {
			return l.refused(code, issues.Errors())
		}
		line, col := place(e)
		list = append(list, l.reworded(code, e.Message, line, col))
	}
	switch len(list) {
	case 0:
		return issues.Err()
	case 1:
		return list[0]
	}
	return list
}

// refused returns the diagnostic for code that is not an expression.
func (l *library) refused(code diag.Text, errs []*common.Error) error {
	if m, ok := explain(code.Code); ok {
		before := code.Code[:min(m.offset, len(code.Code))]
		line := strings.Count(before, "\n")
		col := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
		return hinted(lang.Syntax(code, line+1, col+1, "%s", m.msg), code, m.hint)
	}
	for _, e := range errs {
		if !strings.HasPrefix(e.Message, grammar) {
			line, col := place(e)
			return l.reworded(code, e.Message, line, col)
		}
	}
	line, col := place(errs[0])
	return lang.Syntax(code, line, col, "the expression makes no sense from here on")
}

func hinted(d *diag.Diagnostic, code diag.Text, hint string) *diag.Diagnostic {
	if hint != "" && !code.Hidden { // the hint may quote the code
		d.WithHint("%s", hint)
	}
	return d
}

func place(e *common.Error) (line, col int) {
	if e.Location == nil || e.Location.Line() < 1 {
		return 1, 1
	}
	return e.Location.Line(), max(0, e.Location.Column()) + 1
}

// reworded returns the diagnostic for a message about an expression that was parsed.
func (l *library) reworded(code diag.Text, msg string, line, col int) *diag.Diagnostic {
	msg, _, _ = strings.Cut(msg, "\n")
	if name, ok := quoted(msg, "undeclared reference to '"); ok { // every plain name is a variable, so this is a function
		line, col = called(code.Code, name, line, col)
		if usage, ok := macros[name]; ok {
			return hinted(lang.Syntax(code, line, col, "%s is not called like this", name), code, "write "+usage)
		}
		return hinted(lang.Syntax(code, line, col, "unknown function %q", name), code, l.instead(name))
	}
	if name, ok := quoted(msg, "found no matching overload for '"); ok {
		_, args, _ := strings.Cut(msg, "applied to '")
		args = strings.TrimSuffix(args, "'")
		if symbol, ok := operators.FindReverse(name); ok {
			types := strings.Trim(args, "()")
			d := lang.Syntax(code, line, col, "%s does not work on %s", symbol, strings.Replace(types, ", ", " and ", 1))
			return hinted(d, code, "convert what is of another type: string(x), int(x), double(x)")
		}
		target, given, ok := strings.Cut(args, ".(")
		if !ok {
			target, given = "dyn", strings.TrimPrefix(args, "(")
		}
		on := ""
		if target != "dyn" {
			on = " on " + target
		}
		return lang.Syntax(code, line, col, "%s%s does not take (%s", name, on, given)
	}
	if name, ok := strings.CutPrefix(msg, "reserved identifier: "); ok {
		hint := words[name]
		if hint == "" {
			hint = "a field of this name is written self." + name
		}
		return hinted(lang.Syntax(code, line, col, "%q is a reserved word", name), code, hint)
	}
	if of, ok := quoted(msg, "type '"); ok && strings.HasSuffix(msg, "does not support field selection") {
		hint := ""
		if strings.HasPrefix(of, "list") {
			hint = "an element is list[0], the number of elements size(list)"
		}
		return hinted(lang.Syntax(code, line, col, "a %s has no fields", of), code, hint)
	}
	for _, m := range []struct{ begins, means, hint string }{
		{"invalid int literal", "the number is beyond the range of integers", "write it with u behind it, up to 18446744073709551615u, or with .0"},
		{"invalid uint literal", "the number is beyond the range of integers", "write it with .0"},
		{"invalid argument to has() macro", "has takes a field", "write " + macros["has"]},
		{"argument must be a simple name", "the first argument must be a name, which stands for each element", "write list.map(x, x + 1)"},
		{"argument is not an identifier", "the first argument must be a name, which stands for each element", "write list.map(x, x + 1)"},
		{"unable to unescape string", "the text has an escape that means nothing here", `bytes have no \u: write \xe4`},
		{"expression recursion limit exceeded", "the expression nests too deep", ""},
	} {
		if strings.HasPrefix(msg, m.begins) {
			return hinted(lang.Syntax(code, line, col, "%s", m.means), code, m.hint)
		}
	}
	return lang.Syntax(code, line, col, "%s", msg)
}

func quoted(msg, begins string) (string, bool) {
	rest, ok := strings.CutPrefix(msg, begins)
	if !ok {
		return "", false
	}
	name, _, ok := strings.Cut(rest, "'")
	return name, ok
}

// called returns where the name of a call begins; the checker reports its bracket.
func called(code, name string, line, col int) (int, int) {
	lines := strings.Split(code, "\n")
	if line > len(lines) {
		return line, col
	}
	text := []rune(lines[line-1])
	if name, ok := strings.CutSuffix(strings.TrimRight(string(text[:min(col-1, len(text))]), " \t"), name); ok {
		col = 1 + utf8.RuneCountInString(name)
	}
	return line, col
}

// macros look like functions, but take names.
var macros = map[string]string{
	"has":               "has(self.field)",
	"all":               "list.all(x, condition)",
	"exists":            "list.exists(x, condition)",
	"exists_one":        "list.existsOne(x, condition)",
	"existsOne":         "list.existsOne(x, condition)",
	"map":               "list.map(x, result) or list.map(x, condition, result)",
	"filter":            "list.filter(x, condition)",
	"sortBy":            "list.sortBy(x, key)",
	"transformList":     "list.transformList(i, x, result)",
	"transformMap":      "map.transformMap(key, value, result)",
	"transformMapEntry": "map.transformMapEntry(key, value, {newKey: newValue})",
	"bind":              "cel.bind(name, value, expression)",
	"optMap":            "optional.optMap(x, result)",
	"optFlatMap":        "optional.optFlatMap(x, result)",
	"greatest":          "math.greatest(a, b) or math.greatest(list)",
	"least":             "math.least(a, b) or math.least(list)",
}

const (
	noClock  = "expressions have no clock: take a time from the payload, or use language: javascript"
	noChance = "expressions make nothing random: use language: javascript"
	noReach  = "expressions see the payload only"
	noFold   = "there is no fold: use language: javascript"
	noCase   = "there are upperAscii and lowerAscii only: use language: javascript"
	noPad    = "there is no padding: use language: javascript"
	noSide   = "use text.trim(), which trims both sides"
	orValue  = "use a.?b.orValue(c)"
)

// elsewhere has functions of other languages, by their names in lower case.
var elsewhere = map[string]string{
	"now": noClock, "today": noClock, "date": noClock, "time": noClock, "currenttime": noClock, "clock": noClock,
	"uuid": noChance, "uuidv4": noChance, "random": noChance, "rand": noChance, "randomuuid": noChance,
	"env": noReach, "getenv": noReach, "fetch": noReach, "http": noReach, "print": noReach, "log": noReach,
	"reduce": noFold, "fold": noFold, "sum": noFold, "avg": noFold, "average": noFold, "mean": noFold,
	"len": "use size(x)", "length": "use size(x)", "count": "use size(x), or size(list.filter(x, condition))", "isempty": "use size(x) == 0", "empty": "use size(x) == 0", "isblank": "use size(text.trim()) == 0",
	"touppercase": "use text.upperAscii()", "toupper": "use text.upperAscii()", "upcase": "use text.upperAscii()", "ucase": "use text.upperAscii()", "upper": "use text.upperAscii()", "uppercase": "use text.upperAscii()",
	"tolowercase": "use text.lowerAscii()", "tolower": "use text.lowerAscii()", "downcase": "use text.lowerAscii()", "lcase": "use text.lowerAscii()", "lower": "use text.lowerAscii()", "lowercase": "use text.lowerAscii()",
	"capitalize": noCase, "title": noCase, "titlecase": noCase, "totitle": noCase, "totitlecase": noCase, "swapcase": noCase,
	"beginswith": "use text.startsWith('part')", "hasprefix": "use text.startsWith('part')", "hassuffix": "use text.endsWith('part')",
	"padstart": noPad, "padend": noPad, "lpad": noPad, "rpad": noPad, "ljust": noPad, "rjust": noPad, "zfill": noPad,
	"trimstart": noSide, "trimend": noSide, "trimleft": noSide, "trimright": noSide, "ltrim": noSide, "rtrim": noSide, "lstrip": noSide, "rstrip": noSide,
	"repeat": "use lists.range(n).map(i, text).join()", "left": "use text.substring(0, n)", "right": "use text.substring(size(text) - n)", "mid": "use text.substring(from, to)",
	"includes": "use text.contains('part'), or x in list", "strip": "use text.trim()",
	"push": "use list + [x]", "append": "use list + [x]", "concat": "use +", "merge": "name the fields: {'a': x.a, 'b': y.b}",
	"tostring": "use string(x)", "str": "use string(x)", "parseint": "use int(x)", "parsefloat": "use double(x)", "float": "use double(x)", "number": "use double(x)", "boolean": "use bool(x)",
	"some": "use list.exists(x, condition)", "any": "use list.exists(x, condition)", "every": "use list.all(x, condition)",
	"find": "use list.filter(x, condition)[0], or regex.extract(text, pattern)", "foreach": "use list.map(x, result)", "flatmap": "use list.map(x, result).flatten()",
	"keys": "use map.map(key, key)", "values": "use map.transformList(key, value, value)", "entries": "use map.transformList(key, value, [key, value])",
	"parsejson": "use json.parse(text)", "fromjson": "use json.parse(text)", "tojson": "use json.encode(x)", "encodejson": "use json.encode(x)",
	"isdefined": "use has(self.field)", "defined": "use has(self.field)", "isset": "use has(self.field)", "isstring": "use type(x) == string", "isnumber": "use type(x) in [int, double]",
	"ifnull": orValue, "nvl": orValue, "isnil": "use x == null", "get": orValue, "getordefault": orValue, "orelse": orValue,
	"not": "use !", "if": "write condition ? a : b", "ifelse": "write condition ? a : b", "iif": "write condition ? a : b",
	"stringify": "use json.encode(x)", "match": "use text.matches('pattern')", "test": "use text.matches('pattern')", "search": "use text.matches('pattern')",
	"unique": "use list.distinct()", "uniq": "use list.distinct()", "min": "use math.least(a, b)", "max": "use math.greatest(a, b)",
	"default": orValue, "coalesce": orValue, "sprintf": "use '%s'.format([x])", "printf": "use '%s'.format([x])",
	"substr": "use text.substring(from, to)", "replaceall": "use text.replace(old, new), which replaces all", "typeof": "use type(x)", "pow": "there are no powers: multiply, or use language: javascript",
	"btoa": "use base64.encode(bytes(x))", "atob": "use base64.decode(x)", "isnull": "use x == null", "isarray": "use type(x) == list", "contains_key": "use 'name' in map", "haskey": "use 'name' in map", "hasownproperty": "use 'name' in map",
}

// instead returns what to write for a function that does not exist.
func (l *library) instead(name string) string {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hint, ok := elsewhere[strings.ToLower(last)]; ok {
		return hint
	}
	names := l.functionNames()
	for _, other := range names {
		if strings.EqualFold(other, last) {
			return fmt.Sprintf("write %s: case counts", other)
		}
	}
	var members []string // of math, regex and the like
	for _, other := range names {
		_, member, ok := strings.Cut(other, ".")
		if ok && strings.EqualFold(member, last) {
			return fmt.Sprintf("write %s(…)", other)
		}
		members = append(members, member)
	}
	if near, ok := spell.Nearest(last, names); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if near, ok := spell.Nearest(last, members); ok {
		return fmt.Sprintf("did you mean %q?", names[slices.Index(members, near)])
	}
	return ""
}

func (l *library) functionNames() []string {
	var names []string
	for name := range l.env.Functions() {
		if !strings.ContainsAny(name, "_@!") {
			names = append(names, name)
		}
	}
	for name := range macros {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
