package spec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// maxMounted is the largest size of a file that is a variable, in bytes. Orchestrators
// mount secrets of up to 1 MiB.
const maxMounted = 1 << 20

// The prefixes of references.
const (
	envPrefix  = "env:"
	filePrefix = "file:"
)

// A Reference is what a reference in a values file leads to.
type Reference struct {
	Data []byte
	Path string // of a file; empty for a variable of the environment
	Err  error  // why there is no data
}

// ReadValues reads variables from
//
//   - files in YAML or JSON, as [Read] does, and "-" for stdin;
//   - folders: files named .yaml, .yml or .json, and every other file, whose content is
//     the data of a variable with the name of the file, with / after each subfolder;
//   - env:NAME, a variable with the name and the text of one of the environment, and
//     env:PREFIX*, all whose names begin with the prefix;
//   - file:PATH, a variable with the name and the content of the file.
//
// References in the data of values files, with the same two prefixes, are read, too.
// The environment is KEY=VALUE, as from os.Environ. An error is a [diag.List]; the
// documents that could be read are returned with it.
func ReadValues(paths []string, stdin io.Reader, environment []string) ([]Document, error) {
	r := &fileReader{seen: make(map[string]bool), mounted: true, piped: stdin != nil}
	for _, path := range paths {
		switch {
		case path == "-":
			r.stdin(stdin)
		case strings.HasPrefix(path, envPrefix):
			r.environment(path, environment)
		case strings.HasPrefix(path, filePrefix):
			r.mount(path)
		default:
			r.path(path)
		}
	}
	for i := range r.docs {
		if r.docs[i].Variable == "" {
			r.docs[i].References = references(r.docs[i], environment)
		}
	}
	return r.docs, r.list.Err()
}

// environment reads env:NAME or env:PREFIX*.
func (r *fileReader) environment(path string, environment []string) {
	name := strings.TrimPrefix(path, envPrefix)
	prefix, all := strings.CutSuffix(name, "*")
	found := false
	for _, pair := range environment {
		key, text, _ := strings.Cut(pair, "=")
		if key != "" && (key == name || all && strings.HasPrefix(key, prefix)) {
			found = true
			r.docs = append(r.docs, Document{File: envPrefix + key, Data: []byte(text), Variable: key})
		}
	}
	if !found {
		r.report(path, missingVariable(name, environment, "write ./"+path+" for a file of that name"))
	}
}

// literalHint is what to do if a text only looks like a reference.
const literalHint = "write literal: true next to data if the text itself is meant"

// missingVariable is the finding of a name that the environment does not have. other is
// what to do if no variable is meant.
func missingVariable(name string, environment []string, other string) *diag.Diagnostic {
	d := diag.Errorf(diag.CodeRead, "the environment has no variable %s", name).
		WithHint("set it where the program is started, or %s", other)
	names := make([]string, len(environment))
	for i, pair := range environment {
		names[i], _, _ = strings.Cut(pair, "=")
	}
	if near, ok := spell.Nearest(name, names); ok {
		return d.WithHint("did you mean %s?", near)
	}
	return d
}

// mount reads file:PATH.
func (r *fileReader) mount(reference string) {
	path := referredPath(reference, "")
	data, err := readMounted(path)
	if err != nil {
		r.fail(path, err)
		return
	}
	r.docs = append(r.docs, Document{File: path, Data: data, Variable: filepath.Base(path)})
}

// referredPath returns the path in a reference to a file, as seen from a folder.
func referredPath(reference, folder string) string {
	path := strings.TrimPrefix(reference, filePrefix)
	if strings.HasPrefix(path, "///") {
		path = path[2:] // a URL
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return path
}

// readMounted reads a regular file. It follows links: mounted secrets are links to a
// folder that is replaced as a whole.
func readMounted(path string) (data []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would block
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a folder; without file: all files in it are read")
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	return readBounded(f)
}

func readBounded(f io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxMounted+1))
	if err == nil && len(data) > maxMounted {
		err = fmt.Errorf("the file is larger than %d bytes, too large for the data of a variable", maxMounted)
	}
	return data, err
}

// references reads what the references in a values file lead to.
func references(doc Document, environment []string) map[string]Reference {
	roots, _ := yamltree.Read(doc.File, doc.Data) // ParseVariables reports the errors
	all := make(map[string]Reference)
	for _, root := range roots {
		for _, raw := range slices.Concat([]*schema.Raw{root}, root.Items) {
			if raw.Kind == schema.RawMap && !isLiteral(raw) && raw.Field("data") != nil {
				eachReference(raw.Field("data"), func(_ *schema.Raw, text string) {
					if _, known := all[text]; !known {
						all[text] = refer(text, filepath.Dir(doc.File), environment)
					}
				})
			}
		}
	}
	return all
}

func refer(text, folder string, environment []string) Reference {
	if name, ok := strings.CutPrefix(text, envPrefix); ok {
		for _, pair := range environment {
			if key, text, _ := strings.Cut(pair, "="); key == name {
				return Reference{Data: []byte(text)}
			}
		}
		return Reference{Err: missingVariable(name, environment, literalHint)}
	}
	r := Reference{Path: referredPath(text, folder)}
	r.Data, r.Err = readMounted(r.Path)
	return r
}

// isLiteral reports whether the data of a variable has no references.
func isLiteral(raw *schema.Raw) bool {
	f := raw.Field("literal")
	if f == nil {
		return false
	}
	is, _ := f.Value.AsBool()
	text, _ := f.Value.AsString()
	return is || text == "true"
}

// eachReference calls f for each string below raw that is a reference.
func eachReference(raw *schema.Raw, f func(raw *schema.Raw, text string)) {
	for _, item := range raw.Items {
		eachReference(item, f)
	}
	for i := range raw.Fields {
		eachReference(raw.Fields[i].Value, f)
	}
	if text, ok := raw.Value.AsString(); ok && raw.Kind == schema.RawScalar && isReference(text) {
		f(raw, text)
	}
}

func isReference(text string) bool {
	if strings.ContainsAny(text, "\n\r") {
		return false
	}
	if name, ok := strings.CutPrefix(text, envPrefix); ok {
		return name != "" && !strings.ContainsAny(name, " \t")
	}
	path, ok := strings.CutPrefix(text, filePrefix)
	return ok && path != "" && path[0] != ' '
}

// resolve puts the data of references in their places, and returns the texts.
func (d Document) resolve(s scope, data *schema.Raw) (texts []string) {
	eachReference(data, func(raw *schema.Raw, text string) {
		got, known := d.References[text]
		if !known {
			got.Err = errors.New("references are followed only where files are read")
		}
		if got.Err == nil {
			raw.Value = mountedValue(got.Data)
			texts = append(texts, raw.Value.String())
			return
		}
		found := diag.Errorf(diag.CodeVariable, "%s: %w", text, cause(got.Err)).
			WithHint(literalHint)
		var missing *diag.Diagnostic
		if errors.As(got.Err, &missing) {
			found.Msg, found.Hint = missing.Msg, missing.Hint
		} else if errors.Is(got.Err, fs.ErrNotExist) {
			found.Msg = fmt.Sprintf("%s: there is no file %s", text, got.Path)
		}
		s.report(raw, "data", found)
	})
	return texts
}

// cause returns an error without the path, which is next to it.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// mountedValue returns the data of a file or of the environment, without the line break
// that tools write at the end of a file.
func mountedValue(data []byte) value.Value {
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if !utf8.ValidString(text) {
		return value.Binary(data)
	}
	return value.String(text)
}

// Secrets returns the texts of variables that no output may show: all data of secret
// variables, and what references lead to.
func Secrets(vars []*Variable) []string {
	var texts []string
	for _, v := range vars {
		texts = append(texts, v.referred...)
		if v.Secret {
			texts = append(texts, schema.Texts(v.Data)...)
		}
	}
	return texts
}
