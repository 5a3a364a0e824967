package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// configFile is what is read from the working folder if nothing else is named.
const configFile = ".uniflow.yaml"

// configObject describes the config file: its keys are the names of flags.
type configObject struct{ schema.Object }

func configFields() configObject {
	return configObject{schema.Fields(
		schema.Strings(flagSpecs).Doc("Files and folders of specs, relative to the config file."),
		schema.Strings(flagValues).Doc("Files and folders of variables, relative to the config file."),
		schema.Any(flagEnvironment).Doc("A map of keys and values for `env` entries that name no variable."),
		schema.String("namespace").Doc("The namespace that is served."),
		schema.String("language").Doc("The language of expressions that name none."),
		schema.Bool("watch").Doc("Whether to reload when files change."),
		schema.String("admin").Doc("The address of the admin server."),
		schema.String("admin-token").Secret().Doc("What clients of the admin server must send."),
		schema.Duration("grace").Doc("How long a shutdown lets processes go on."),
		schema.Bool("debug").Doc("Whether to log more."),
		schema.Enum("log-format", logFormats()...).Doc("How to log."),
	)}
}

func (o configObject) find(name string) (schema.FieldInfo, bool) {
	all := o.All()
	i := slices.IndexFunc(all, func(f schema.FieldInfo) bool { return f.Name == name })
	if i < 0 {
		return schema.FieldInfo{}, false
	}
	return all[i], true
}

// config is what a config file sets, as the flags take it.
type config struct {
	path   string
	values map[string][]string
}

// readConfig reads the config file at a path, or the one of the working folder
// if path is empty. What is wrong with it is printed.
func (a *app) readConfig(path string) (config, error) {
	named := path != ""
	if !named {
		path = configFile
	}
	data, err := os.ReadFile(path)
	if err != nil {
		if !named && errors.Is(err, fs.ErrNotExist) {
			return config{}, nil
		}
		return config{}, usagef("", "", "config file: %w", err)
	}
	c, list := parseConfig(path, data)
	if len(list) > 0 {
		list.Sort()
		text := func(string) []byte { return data }
		if err := diag.Render(a.Stderr, list, text, a.colourErr); err != nil {
			return config{}, err
		}
		return config{}, &exitError{code: exitUsage}
	}
	return c, nil
}

func parseConfig(path string, data []byte) (config, diag.List) {
	c := config{path: path, values: make(map[string][]string)}
	var list diag.List
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return c, diag.List{configSyntax(path, err)}
	}
	if len(doc.Content) == 0 {
		return c, nil // an empty file
	}
	t := configTree{file: path}
	raw := t.tree(doc.Content[0], 0)
	if raw.Kind == schema.RawScalar && raw.Value.IsNull() {
		return c, nil
	}
	list.Append(t.list)
	fields := configFields()
	cfg, found := fields.Decode(raw)
	list.Append(found)
	for _, f := range fields.All() {
		if !cfg.Has(f.Name) {
			continue
		}
		switch f.Type {
		case schema.TypeStrings:
			c.values[f.Name] = relativeTo(path, cfg.Strings(f.Name))
		case schema.TypeBool:
			c.values[f.Name] = []string{strconv.FormatBool(cfg.Bool(f.Name))}
		case schema.TypeDuration:
			c.values[f.Name] = []string{cfg.Duration(f.Name).String()}
		case schema.TypeAny:
			pairs, d := configPairs(raw.Field(f.Name), f.Name)
			list.Append(d)
			c.values[f.Name] = pairs
		default:
			c.values[f.Name] = []string{cfg.String(f.Name)}
		}
	}
	return c, list
}

// configSyntax makes a finding of an error of the YAML parser.
func configSyntax(path string, err error) *diag.Diagnostic {
	d := diag.Errorf(diag.CodeYAML, "%v", err)
	d.Pos.File = path
	var load *yaml.LoadError
	if errors.As(err, &load) {
		d.Msg, d.Pos.Line, d.Pos.Col = load.Message, load.Mark.Line, load.Mark.Column
	}
	return d
}

// configPairs reads a map of scalars as KEY=VALUE.
func configPairs(raw *schema.Raw, name string) ([]string, diag.List) {
	var list diag.List
	if raw.Kind != schema.RawMap {
		d := diag.Errorf(diag.CodeWrongType, "want a map, got %s", raw.What())
		list.Add(d.WithHint("write %s: {KEY: VALUE}", name).At(raw.Pos, name))
		return nil, list
	}
	var pairs []string
	for _, f := range raw.Fields {
		if f.Value.Kind != schema.RawScalar {
			list.Add(diag.Errorf(diag.CodeWrongType, "want text, got %s", f.Value.What()).At(f.Value.Pos, name+"."+f.Name))
			continue
		}
		pairs = append(pairs, f.Name+"="+f.Value.Text.Code)
	}
	return pairs, list
}

// relativeTo takes paths as relative to a config file.
func relativeTo(file string, paths []string) []string {
	resolved := make([]string, len(paths))
	for i, path := range paths {
		if path == stdinPath || filepath.IsAbs(path) {
			resolved[i] = path
			continue
		}
		resolved[i] = filepath.Join(filepath.Dir(file), path)
	}
	return resolved
}

// A configTree makes the tree that a schema decodes of the nodes of the YAML
// parser: a config file has maps, lists and scalars, and no anchors.
type configTree struct {
	file string
	list diag.List
}

// maxConfigDepth is far deeper than any config file.
const maxConfigDepth = 20

func (t *configTree) tree(n *yaml.Node, depth int) *schema.Raw {
	raw := &schema.Raw{Pos: diag.Pos{File: t.file, Line: n.Line, Col: n.Column}}
	switch {
	case depth > maxConfigDepth:
		t.list.Add(diag.Errorf(diag.CodeLimit, "too deep for a config file").At(raw.Pos, ""))
	case n.Kind == yaml.MappingNode:
		t.fields(raw, n, depth)
	case n.Kind == yaml.SequenceNode:
		raw.Kind = schema.RawList
		for _, item := range n.Content {
			raw.Items = append(raw.Items, t.tree(item, depth+1))
		}
	case n.Kind == yaml.ScalarNode:
		raw.Text = diag.NewText(n.Value, t.file, raw.Pos, nil)
		raw.Value = configScalar(n)
	default:
		t.list.Add(diag.Errorf(diag.CodeAlias, "a config file has no aliases").At(raw.Pos, ""))
	}
	return raw
}

func (t *configTree) fields(raw *schema.Raw, n *yaml.Node, depth int) {
	raw.Kind = schema.RawMap
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		pos := diag.Pos{File: t.file, Line: key.Line, Col: key.Column}
		if key.Kind != yaml.ScalarNode {
			t.list.Add(diag.Errorf(diag.CodeKey, "a key is text").At(pos, ""))
			continue
		}
		if raw.Field(key.Value) != nil {
			t.list.Add(diag.Errorf(diag.CodeDuplicateKey, "the key is there twice").At(pos, key.Value))
			continue
		}
		raw.Fields = append(raw.Fields, schema.RawField{Name: key.Value, Pos: pos, Value: t.tree(n.Content[i+1], depth+1)})
	}
}

// configScalar reads a scalar as what it looks like.
func configScalar(n *yaml.Node) value.Value {
	switch n.Tag {
	case "!!null":
		return value.Null()
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return value.Bool(b)
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return value.Int(i)
		}
	case "!!float":
		var f float64
		if n.Decode(&f) == nil {
			return value.Float(f)
		}
	}
	return value.String(n.Value)
}
