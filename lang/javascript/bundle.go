package javascript

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
)

// mainFile is the name of the code itself among the files of a bundle. With the colon it
// differs from all files that code can import.
const mainFile = "code:main"

// Limits of imports. Files have the same limits as the code of a document, except the
// size.
const (
	maxFile  = 1 << 20 // bytes of one file
	maxFiles = 8 << 20 // bytes of all files
)

// missing is the syntax that the interpreter does not have. The bundler translates or
// refuses it.
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

// checkSize refuses code that is too large or too deep for the parsers.
func checkSize(code diag.Text) error {
	if len(code.Code) > maxSource {
		return lang.Syntax(code, 1, 1, "the code has %d bytes, %d are the most", len(code.Code), maxSource).
			WithHint("put it into files next to the document and import them")
	}
	if _, wrong := scan(code.Code); wrong != nil {
		line, col := position(code.Code, wrong.at)
		return lang.Syntax(code, line, col, "%s", wrong.text)
	}
	return nil
}

// A module is a script that returns the exports of the code each time it runs.
type module struct {
	script  *goja.Program
	private bool // mayBePrivate
}

// mayBePrivate reports whether code may have classes with private fields.
func mayBePrivate(script string) bool {
	return strings.Contains(script, "class") && strings.Contains(script, "#")
}

func (l *Language) bundle(code diag.Text) (*module, error) {
	script, sourceMap, err := l.script(code)
	if err != nil {
		return nil, err
	}
	m, err := newModule(script, sourceMap)
	if err != nil {
		return nil, lang.Syntax(code, 1, 1, "%v", err)
	}
	return m, nil
}

func newModule(script string, sourceMap []byte) (*module, error) {
	prog, err := parse(script, sourceMap)
	if err != nil {
		return nil, fmt.Errorf("the interpreter cannot run this code: %w", err)
	}
	return &module{prog, mayBePrivate(script)}, nil
}

// script makes one script of the code and its imports. It runs none of them.
func (l *Language) script(code diag.Text) (script string, sourceMap []byte, err error) {
	if err := checkSize(code); err != nil {
		return "", nil, err
	}
	root, rootErr := folder(code.File)
	files := &imports{root: root, rootErr: rootErr, read: map[string]string{}}
	result := api.Build(api.BuildOptions{
		// The bundler reads the file that the last comment of this kind names, even
		// outside of the folder. So one without a file is appended.
		Stdin:          &api.StdinOptions{Contents: code.Code + noSourceMap, Sourcefile: mainFile, Loader: l.loader()},
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
		Plugins:        []api.Plugin{{Name: pluginName, Setup: files.setup}},
	})
	if len(result.Errors) > 0 {
		return "", nil, diagnose(code, files, result.Errors)
	}
	var js []byte
	for _, f := range result.OutputFiles {
		if strings.HasSuffix(f.Path, ".map") {
			sourceMap = f.Contents
		} else {
			js = f.Contents
		}
	}
	body, exported, err := takeExport(string(js))
	if err != nil {
		return "", nil, lang.Syntax(code, 1, 1, "%v", err).WithHint("write export default function (input) { … }")
	}
	return body + "\nreturn " + exported + ";\n})()\n//# sourceMappingURL=bundle.js.map", sourceMap, nil
}

// parse compiles a script. The source map is not read from disk.
func parse(script string, sourceMap []byte) (*goja.Program, error) {
	return compileScript("bundle.js", script, parser.WithSourceMapLoader(func(string) ([]byte, error) { return sourceMap, nil }))
}

// finalExport matches the last statement of a bundle, for both kinds of modules.
var finalExport = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\nexport (?:\{([^{}]*)\}|default ([\w$]+\(\)));\s*$`)
})

// takeExport removes the last statement of a bundle and returns the expression that is
// the default export.
func takeExport(js string) (body, exported string, err error) {
	at := finalExport().FindStringSubmatchIndex(js)
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

// folder returns the folder of a document, with links resolved. A document from a pipe
// has none.
func folder(file string) (string, error) {
	none := string(filepath.Separator)
	if file == "" || strings.HasPrefix(file, "<") {
		return none, errors.New("the document is not a file, so it has no folder to import from")
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

// extensions are tried in order for an import without one.
func extensions() []string { return []string{"", ".ts", ".js", ".mts", ".mjs", ".cjs", ".json"} }

const (
	pluginName  = "imports"
	noSourceMap = "\n//# sourceMappingURL=none:"
)

// imports resolves and reads the files that a module imports from the folder root and its
// subfolders. Everything else is an error: packages, built-in modules of other engines,
// URLs. The bundler itself reads no file.
type imports struct {
	root    string
	rootErr error // why there is no folder

	mu   sync.Mutex // the bundler calls from several goroutines
	read map[string]string
	size int
}

func (m *imports) setup(b api.PluginBuild) {
	b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		if a.Kind == api.ResolveEntryPoint {
			return api.OnResolveResult{}, nil
		}
		path, err := m.resolve(a.Path, a.ResolveDir)
		if err != nil {
			return api.OnResolveResult{PluginName: pluginName, Errors: []api.Message{{Text: fmt.Sprintf("cannot import %q: %v", a.Path, err), PluginName: pluginName}}}, nil
		}
		return api.OnResolveResult{Path: path, Namespace: pluginName}, nil
	})
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: pluginName}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		loader, ok := loaders()[filepath.Ext(a.Path)]
		if !ok {
			return failed("this kind of file cannot be imported: name it .js, .ts, .json or .txt"), nil
		}
		text, err := m.load(a.Path)
		if err != nil {
			return failed(err.Error()), nil
		}
		if loader != api.LoaderText {
			if _, wrong := scan(text); wrong != nil {
				result := failed(wrong.text)
				line, col := position(text, wrong.at)
				result.Errors[0].Location = &api.Location{File: a.Path, Namespace: pluginName, Line: line, Column: col - 1}
				return result, nil
			}
		}
		if loader != api.LoaderJSON && loader != api.LoaderText {
			text += noSourceMap
		}
		return api.OnLoadResult{Contents: &text, Loader: loader, ResolveDir: filepath.Dir(a.Path)}, nil
	})
}

func failed(text string) api.OnLoadResult {
	return api.OnLoadResult{PluginName: pluginName, Errors: []api.Message{{Text: text, PluginName: pluginName}}}
}

func loaders() map[string]api.Loader {
	return map[string]api.Loader{
		".ts": api.LoaderTS, ".mts": api.LoaderTS, ".cts": api.LoaderTS, ".js": api.LoaderJS, ".mjs": api.LoaderJS, ".cjs": api.LoaderJS,
		".json": api.LoaderJSON, ".txt": api.LoaderText,
	}
}

// resolve returns the file of an import in the folder dir.
func (m *imports) resolve(name, dir string) (string, error) {
	if !strings.HasPrefix(name, "./") && !strings.HasPrefix(name, "../") {
		return "", fmt.Errorf("only files in the folder of the document, such as \"./%s\", can be imported", filepath.Base(name))
	}
	if m.rootErr != nil {
		return "", m.rootErr
	}
	if dir == "" {
		dir = m.root
	}
	for _, ext := range extensions() {
		path := filepath.Join(dir, filepath.FromSlash(name)+ext)
		if !below(m.root, path) {
			return "", errors.New("it is outside of the document's folder")
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", err
		}
		if !below(m.root, real) {
			return "", errors.New("it links to a file outside of the document's folder")
		}
		return real, nil
	}
	return "", errors.New("there is no such file")
}

func (m *imports) load(path string) (string, error) {
	root, err := os.OpenRoot(m.root)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name, err := filepath.Rel(m.root, path)
	if err != nil {
		return "", err
	}
	// Without blocking, because it may have become a pipe since it was resolved.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("it is not a file"))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxFile {
		return "", fmt.Errorf("the file has more than %d bytes, which are the most", maxFile)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read[path] = string(text)
	if m.size += len(text); m.size > maxFiles {
		return "", fmt.Errorf("the imported files have more than %d bytes, which are the most", maxFiles)
	}
	return string(text), nil
}

func below(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// diagnose converts messages of the bundler to diagnostics, with places in the document
// or in the imported file.
func diagnose(code diag.Text, files *imports, messages []api.Message) error {
	var list diag.List
	for _, m := range messages {
		text, file := code.Code, ""
		if m.Location != nil && m.Location.File != mainFile {
			file = strings.TrimPrefix(filepath.FromSlash(m.Location.File), pluginName+":")
			if !filepath.IsAbs(file) {
				file = filepath.Join(files.root, file)
			}
			text = files.read[file]
		}
		line, col := 1, 1
		if m.Location != nil {
			line = m.Location.Line
			col = 1 + utf8.RuneCountInString(m.Location.LineText[:min(m.Location.Column, len(m.Location.LineText))])
		}
		message := lowerFirst(m.Text)
		if strings.HasPrefix(message, "unexpected end of file") || line > 1+strings.Count(strings.TrimRight(text, "\n"), "\n") {
			message, line, col = endsEarly(text, message)
		}
		d := lang.Syntax(code, line, col, "%s", message)
		if file != "" {
			d = diag.Errorf(diag.CodeSyntax, "%s", message)
			d.Pos = diag.Pos{File: file, Line: line, Col: col}
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

// endsEarly returns the message for code that ends too early, with its place: the bracket
// that is not closed, or the end.
func endsEarly(text, message string) (string, int, int) {
	if unclosed, wrong := scan(text); wrong == nil && len(unclosed) > 0 {
		last := unclosed[len(unclosed)-1]
		char := string(last.char)
		if last.char == '`' {
			char = "${"
		}
		line, col := position(text, last.at)
		return fmt.Sprintf("this %q is never closed", char), line, col
	}
	text = strings.TrimRight(text, " \t\r\n")
	line, col := position(text, len(text))
	return message, line, col
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
