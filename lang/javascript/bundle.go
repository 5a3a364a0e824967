package javascript

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
)

// mainFile is the name of the code itself among the files of a bundle. The colon
// keeps it apart from the files of any folder that code can import.
const mainFile = "code:main"

// maxNesting is how deep brackets may nest in code, and maxSource how long it may
// be, in bytes. The parsers recurse, for each ! and each else if too, and a stack
// that is used up ends the process: 200,000 conditionals inside of one another
// did. What the code imports is not bounded.
const (
	maxNesting = 1000
	maxSource  = 128 << 10
)

// missing is the syntax that the interpreter does not know, which the bundler
// writes in another way or refuses.
func missing() map[string]bool {
	return map[string]bool{
		"async-generator": false, "for-await": false, "top-level-await": false, "import-meta": false,
		"decorators": false, "using": false, "regexp-set-notation": false, "regexp-match-indices": false,
		"hashbang": false, "import-assertions": false, "import-attributes": false,
	}
}

func (l *Language) loader() api.Loader {
	if l.typescript {
		return api.LoaderTS
	}
	return api.LoaderJS
}

// checkSize refuses code that a recursive parser cannot take. It looks at
// brackets wherever they stand, in strings too.
func checkSize(code diag.Text) error {
	if len(code.Code) > maxSource {
		return lang.Syntax(code, 1, 1, "the code has %d bytes, %d are the most", len(code.Code), maxSource).
			WithHint("put it into files beside the document and import them")
	}
	depth, line, lineStart := 0, 1, 0
	for i, c := range code.Code {
		switch c {
		case '(', '[', '{':
			if depth++; depth > maxNesting {
				return lang.Syntax(code, line, 1+utf8.RuneCountInString(code.Code[lineStart:i]), "brackets nest deeper than %d levels", maxNesting)
			}
		case ')', ']', '}':
			depth = max(0, depth-1)
		case '\n':
			line, lineStart = line+1, i+1
		}
	}
	return nil
}

// A module is a script that gives what the code exports each time it is run.
type module struct {
	script *goja.Program
}

// bundle makes one script of the code and what it imports.
func (l *Language) bundle(code diag.Text) (*module, error) {
	if err := checkSize(code); err != nil {
		return nil, err
	}
	root, rootErr := folder(code.File)
	result := api.Build(api.BuildOptions{
		Stdin:          &api.StdinOptions{Contents: code.Code, Sourcefile: mainFile, Loader: l.loader(), ResolveDir: root},
		AbsWorkingDir:  root,
		Bundle:         true,
		Outfile:        "bundle.js", // not written
		Format:         api.FormatESModule,
		Platform:       api.PlatformNeutral,
		Target:         api.ES2022,
		Supported:      missing(),
		LogLevel:       api.LogLevelSilent,
		TsconfigRaw:    "{}",
		Charset:        api.CharsetUTF8,
		LegalComments:  api.LegalCommentsNone,
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		Banner:         map[string]string{"js": `(() => { "use strict";`},
		Plugins:        []api.Plugin{imports(root, rootErr)},
	})
	if len(result.Errors) > 0 {
		return nil, diagnose(code, root, result.Errors)
	}
	var js, sourceMap []byte
	for _, f := range result.OutputFiles {
		if strings.HasSuffix(f.Path, ".map") {
			sourceMap = f.Contents
		} else {
			js = f.Contents
		}
	}
	body, exported, err := takeExport(string(js))
	if err != nil {
		return nil, lang.Syntax(code, 1, 1, "%v", err).WithHint("write export default function (input) { … }")
	}
	script := body + "\nreturn " + exported + ";\n})()\n//# sourceMappingURL=bundle.js.map"
	prog, err := parse(script, sourceMap)
	if err != nil {
		return nil, lang.Syntax(code, 1, 1, "the interpreter cannot run this code: %v", err)
	}
	return &module{prog}, nil
}

// parse compiles a script. The map is found without looking at any disk.
func parse(script string, sourceMap []byte) (*goja.Program, error) {
	tree, err := goja.Parse("bundle.js", script, parser.WithSourceMapLoader(func(string) ([]byte, error) { return sourceMap, nil }))
	if err != nil {
		return nil, err
	}
	return goja.CompileAST(tree, true)
}

// finalExport matches the statement with which the bundler ends a module, of
// either kind.
var finalExport = regexp.MustCompile(`\nexport (?:\{([^{}]*)\}|default ([\w$]+\(\)));\s*$`)

// takeExport takes the final statement off a bundle and returns the expression
// of what it exports as default.
func takeExport(js string) (body, exported string, err error) {
	at := finalExport.FindStringSubmatchIndex(js)
	if at == nil {
		return "", "", errors.New("the code exports nothing")
	}
	body = js[:at[0]]
	if at[4] >= 0 {
		return body, js[at[4]:at[5]], nil
	}
	for item := range strings.SplitSeq(js[at[2]:at[3]], ",") {
		if local, ok := strings.CutSuffix(strings.TrimSpace(item), " as default"); ok {
			return body, local, nil
		}
	}
	return "", "", errors.New("the code has no default export")
}

// folder returns the folder of a document, with links resolved. A document that
// came through a pipe has none.
func folder(file string) (string, error) {
	none := string(filepath.Separator)
	if file == "" || strings.HasPrefix(file, "<") {
		return none, errors.New("the document is not a file, so nothing stands beside it")
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return none, err
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return none, err
	}
	return dir, nil
}

// extensions are tried in order where an import has none.
func extensions() []string { return []string{"", ".ts", ".js", ".mts", ".mjs", ".cjs", ".json"} }

const pluginName = "imports"

// imports resolves imports to files in the folder root or below it. Everything
// else is an error: packages, the built-in modules of other engines, URLs.
func imports(root string, rootErr error) api.Plugin {
	refuse := func(format string, args ...any) (api.OnResolveResult, error) {
		return api.OnResolveResult{PluginName: pluginName, Errors: []api.Message{{Text: fmt.Sprintf(format, args...), PluginName: pluginName}}}, nil
	}
	resolve := func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		if a.Kind == api.ResolveEntryPoint {
			return api.OnResolveResult{}, nil
		}
		if !strings.HasPrefix(a.Path, "./") && !strings.HasPrefix(a.Path, "../") {
			return refuse("cannot import %q: only files beside the document, such as \"./%s\", can be imported", a.Path, filepath.Base(a.Path))
		}
		if rootErr != nil {
			return refuse("cannot import %q: %v", a.Path, rootErr)
		}
		for _, ext := range extensions() {
			path := filepath.Join(a.ResolveDir, filepath.FromSlash(a.Path)+ext)
			if !below(root, path) {
				return refuse("cannot import %q: it is outside of the document's folder", a.Path)
			}
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				return refuse("cannot import %q: %v", a.Path, err)
			}
			if !below(root, real) {
				return refuse("cannot import %q: it links to a file outside of the document's folder", a.Path)
			}
			return api.OnResolveResult{Path: real}, nil
		}
		return refuse("cannot import %q: there is no such file", a.Path)
	}
	return api.Plugin{Name: pluginName, Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: ".*"}, resolve)
	}}
}

func below(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// diagnose turns the bundler's messages into diagnostics: in the document for
// the code itself, in their own file for what it imports.
func diagnose(code diag.Text, root string, messages []api.Message) error {
	var list diag.List
	for _, m := range messages {
		line, col := 1, 1
		own := m.Location == nil || m.Location.File == mainFile
		if m.Location != nil {
			line = m.Location.Line
			col = 1 + utf8.RuneCountInString(m.Location.LineText[:min(m.Location.Column, len(m.Location.LineText))])
		}
		d := lang.Syntax(code, line, col, "%s", lowerFirst(m.Text))
		if !own {
			d = diag.Errorf(diag.CodeSyntax, "%s", lowerFirst(m.Text))
			d.Pos = diag.Pos{File: filepath.Join(root, filepath.FromSlash(m.Location.File)), Line: line, Col: col}
		}
		if m.PluginName == pluginName {
			d.Code = diag.CodeImport
		}
		list = append(list, d)
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// lowerFirst lowers the first letter of a message, unless the word is a name.
func lowerFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[size:])
	if first < 'A' || first > 'Z' || (second >= 'A' && second <= 'Z') {
		return s
	}
	return string(first+'a'-'A') + s[size:]
}
