package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
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
		schema.Duration(flagSlow).Doc("How long a process takes whose timeline is kept."),
		schema.String(flagSlowDir).Doc("The folder that keeps them."),
		schema.String(flagOTLP).Doc("The OpenTelemetry receiver that traces are sent to."),
		schema.Float(flagOTLPRatio).Doc("The share of processes whose traces are sent, where none reaches them."),
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
	if _, err := os.Lstat(path); !named && errors.Is(err, fs.ErrNotExist) {
		return config{}, nil
	}
	docs, err := spec.Read([]string{path}, nil)
	if err != nil || len(docs) != 1 {
		if err == nil {
			err = fmt.Errorf("%s is a folder", path)
		}
		return config{}, usagef("", "", "config file: %w", err)
	}
	c, list := parseConfig(path, docs[0].Data)
	if len(list) > 0 {
		list.Sort()
		text := func(string) []byte { return docs[0].Data }
		if err := diag.Render(a.Stderr, list, text, a.colourErr); err != nil {
			return config{}, err
		}
		return config{}, &exitError{code: exitUsage}
	}
	return c, nil
}

func parseConfig(path string, data []byte) (config, diag.List) {
	c := config{path: path, values: make(map[string][]string)}
	roots, list := yamltree.Read(path, data)
	if len(list) > 0 {
		return c, list
	}
	if len(roots) == 0 || roots[0].Kind == schema.RawScalar && roots[0].Value.IsNull() {
		return c, nil // an empty file
	}
	raw := roots[0]
	if len(roots) > 1 {
		return c, diag.List{diag.Errorf(diag.CodeWrongType, "a config file is one document").At(roots[1].Pos, "")}
	}
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
		case schema.TypeFloat:
			c.values[f.Name] = []string{strconv.FormatFloat(cfg.Float(f.Name), 'g', -1, 64)}
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
