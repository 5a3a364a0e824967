package serve

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
)

// Names of templates that are not files.
const (
	nameText  = "text"
	nameProbe = "\x00probe"
)

// maxFile is the longest file of a template, in bytes.
const maxFile = 4 << 20

// A source is a text that was parsed, and where it is from.
type source struct {
	field string // of the config
	file  string // a path; empty for text
}

// A parser reads the templates of a node.
type parser struct {
	c       schema.Config
	set     *template.Template
	sources map[string]source // by name of the template
}

// parsePage reads the templates of a node, and returns the one to execute.
func parsePage(c schema.Config) (*template.Template, error) {
	p := &parser{c: c, sources: make(map[string]source), set: template.New(nameProbe).Funcs(functions())}
	main, err := p.parseAll()
	if err != nil {
		return nil, err
	}
	// What is wrong with the context of an action is found when the template is executed
	// for the first time. The probe uses the template, and fails before that has begun.
	if _, err := p.set.Parse(fmt.Sprintf("{{ %s }}{{ template %q . }}", nameStop, main)); err != nil {
		return nil, err
	}
	var wrong *template.Error
	if err := p.set.Execute(io.Discard, nil); errors.As(err, &wrong) {
		return nil, p.place(err, main)
	}
	return p.set.Lookup(main), nil
}

// parseAll reads all templates, and returns the name of the one to execute.
func (p *parser) parseAll() (main string, err error) {
	switch {
	case p.c.Has("text") && p.c.Has("file"):
		return "", p.c.Errorf("file", diag.CodeBadValue, "there is a text as well").WithHint("leave one of text and file out")
	case !p.c.Has("text") && !p.c.Has("file"):
		return "", p.c.Errorf("", diag.CodeBadValue, "there is no template").WithHint("write it into text, or its file into file")
	}
	for _, pattern := range p.c.Strings("partials") {
		paths, err := filepath.Glob(pattern)
		if err == nil && len(paths) == 0 {
			err = errors.New("no such file")
		}
		if err != nil {
			return "", p.c.Errorf("partials", diag.CodeBadValue, "%s: %v", p.shown("partials", pattern), err)
		}
		for _, path := range paths {
			if err := p.file("partials", path); err != nil {
				return "", err
			}
		}
	}
	if p.c.Has("layout") {
		main = p.c.String("layout")
		if err := p.file("layout", main); err != nil {
			return "", err
		}
		main = filepath.Base(main)
	}
	of := nameText
	if p.c.Has("file") {
		of = filepath.Base(p.c.String("file"))
		err = p.file("file", p.c.String("file"))
	} else {
		err = p.parse(nameText, p.c.String("text"), source{field: "text"})
	}
	if main == "" {
		main = of
	}
	return main, err
}

// shown returns a text of a field for a message.
func (p *parser) shown(field, text string) string {
	if p.c.Hidden(field) {
		return field
	}
	return strconv.Quote(text)
}

// file reads a file, whose template has its name.
func (p *parser) file(field, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return p.c.Errorf(field, diag.CodeBadValue, "%s: %s", p.shown(field, path), reason(err)).WithHint("paths are relative to the folder that the program runs in")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return p.c.Errorf(field, diag.CodeBadValue, "%s: %s", p.shown(field, path), reason(err))
	}
	if len(data) > maxFile {
		return p.c.Errorf(field, diag.CodeBadValue, "%s: has more than %d bytes", p.shown(field, path), maxFile)
	}
	return p.parse(filepath.Base(path), string(data), source{field, path})
}

func (p *parser) parse(name, text string, from source) error {
	if other, twice := p.sources[name]; twice {
		return p.c.Errorf(from.field, diag.CodeBadValue, "there is a template of the name %s in %s, too", p.shown(from.field, name), other.field).
			WithHint("rename one of the files: a template has the name of its file, and that of the field text is text")
	}
	p.sources[name] = from
	if _, err := p.set.New(name).Parse(text); err != nil {
		return p.place(err, name)
	}
	return nil
}

// placed matches what begins an error of a template: its name, line and column.
var placed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:html/)?template: ?(.*?):(\d+)(?::(\d+))?: `) })

var unknownFunction = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^function "(.*)" not defined`) })

// place reports an error of a template at its place: in the document, or in a file.
func (p *parser) place(err error, name string) error {
	msg, line, column := err.Error(), 1, 1
	if m := placed().FindStringSubmatch(msg); m != nil {
		if _, known := p.sources[m[1]]; known {
			name = m[1]
		}
		msg = msg[len(m[0]):]
		line, _ = strconv.Atoi(m[2])
		if column, _ = strconv.Atoi(m[3]); m[3] != "" {
			column++ // html/template counts from 0
		}
	}
	msg = plainMessage(msg)
	from := p.sources[name]
	if p.c.Hidden(from.field) {
		msg = "the template has a mistake"
	}
	if from.file != "" {
		return p.c.Errorf(from.field, diag.CodeSyntax, "%s:%d: %s", p.shown(from.field, from.file), line, msg)
	}
	d := p.c.Errorf(from.field, diag.CodeSyntax, "%s", msg)
	d.Pos = p.c.Text(from.field).Pos(line, column)
	switch m := unknownFunction().FindStringSubmatch(msg); {
	case msg == "unexpected EOF": // found behind the last line
		d.Msg, d.Pos, d.Hint = "an action is not ended", p.c.Pos(from.field), "each {{if}}, {{range}}, {{with}}, {{define}} and {{block}} ends with {{end}}"
	case m != nil:
		names := slices.Sorted(maps.Keys(functions()))
		d.Hint = "there is " + strings.Join(slices.DeleteFunc(names, func(name string) bool { return name == nameStop }), ", ") + ", and what Go's templates have"
	}
	return d
}

// plainMessage shortens a message of html/template: it names contexts that only the code of
// that package has.
func plainMessage(msg string) string {
	if before, _, ok := strings.Cut(msg, " end in different contexts"); ok {
		return before + " end in different contexts: one of them leaves a tag, an attribute or a text of a script open"
	}
	return msg
}

const nameStop = "uniflow_stop"

var errStop = errors.New("stop")

// functions returns what templates may call in addition to Go's functions. No result is
// exempt from escaping.
func functions() template.FuncMap {
	return template.FuncMap{
		nameStop: func() (string, error) { return "", errStop },
		"join":   join,
		"date":   date,
		"default": func(instead, v any) any {
			if truth, _ := template.IsTrue(v); truth {
				return v
			}
			return instead
		},
	}
}

func join(list any, separator string) (string, error) {
	elems, ok := list.([]any)
	if !ok && list != nil {
		return "", fmt.Errorf("join: want a list, got %T", list)
	}
	texts := make([]string, len(elems))
	for i, e := range elems {
		texts[i] = fmt.Sprint(e)
	}
	return strings.Join(texts, separator), nil
}

func date(layout string, at any) (string, error) {
	switch at := at.(type) {
	case nil:
		return "", nil
	case time.Time:
		return at.Format(layout), nil
	case string:
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return "", errors.New("date: the text is not a time as RFC 3339 has it, such as 2030-01-02T15:04:05Z")
		}
		return t.Format(layout), nil
	}
	return "", fmt.Errorf("date: want a time, got %T", at)
}
