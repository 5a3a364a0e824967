package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// A kind is what follows from the type of a setting.
type kind struct {
	name  string                     // in the reference
	flag  func(flags *pflag.FlagSet) // adds the flag
	field *schema.Field              // of the config file

	// values returns the values of a decoded config file at a path, as the flag takes
	// them.
	values func(path string, cfg schema.Config) ([]string, diag.List)

	split func(text string) []string // makes values of an environment variable
}

// kind has one case for each type that settings may have.
func (s setting) kind() kind {
	one := func(format func(cfg schema.Config) string) func(string, schema.Config) ([]string, diag.List) {
		return func(_ string, cfg schema.Config) ([]string, diag.List) { return []string{format(cfg)}, nil }
	}
	k := kind{split: whole}
	switch into := s.into.(type) {
	case *string:
		k.name, k.field = schema.TypeString.String(), schema.String(s.name)
		k.flag = func(flags *pflag.FlagSet) { flags.StringVarP(into, s.name, s.short, *into, s.usage) }
		k.values = one(func(cfg schema.Config) string { return cfg.String(s.name) })
	case *bool:
		k.name, k.field = schema.TypeBool.String(), schema.Bool(s.name)
		k.flag = func(flags *pflag.FlagSet) { flags.BoolVarP(into, s.name, s.short, *into, s.usage) }
		k.values = one(func(cfg schema.Config) string { return strconv.FormatBool(cfg.Bool(s.name)) })
	case *int:
		k.name, k.field = schema.TypeInt.String(), schema.Int(s.name)
		k.flag = func(flags *pflag.FlagSet) { flags.IntVarP(into, s.name, s.short, *into, s.usage) }
		k.values = one(func(cfg schema.Config) string { return strconv.FormatInt(cfg.Int(s.name), 10) })
	case *float64:
		k.name, k.field = schema.TypeFloat.String(), schema.Float(s.name)
		k.flag = func(flags *pflag.FlagSet) { flags.Float64VarP(into, s.name, s.short, *into, s.usage) }
		k.values = one(func(cfg schema.Config) string { return strconv.FormatFloat(cfg.Float(s.name), 'g', -1, 64) })
	case *app.Size:
		k.name, k.field = schema.TypeBytes.String(), schema.Bytes(s.name)
		k.flag = func(flags *pflag.FlagSet) {
			flags.VarP(into, s.name, s.short, s.usage)
			flags.Lookup(s.name).DefValue = "" // the usage says what 0 is
		}
		k.values = one(func(cfg schema.Config) string { return strconv.FormatInt(cfg.Int(s.name), 10) })
	case *time.Duration:
		k.name, k.field = schema.TypeDuration.String(), schema.Duration(s.name)
		k.flag = func(flags *pflag.FlagSet) { flags.DurationVarP(into, s.name, s.short, *into, s.usage) }
		k.values = one(func(cfg schema.Config) string { return cfg.Duration(s.name).String() })
	case *Paths:
		k.name, k.field = schema.TypeStrings.String(), schema.Strings(s.name)
		k.flag = func(flags *pflag.FlagSet) {
			flags.StringArrayVarP((*[]string)(into), s.name, s.short, *into, s.usage+"; may be repeated")
		}
		k.values = func(path string, cfg schema.Config) ([]string, diag.List) {
			return relativeTo(path, cfg.Strings(s.name)), nil
		}
		k.split = filepath.SplitList
		if s.name == FromValues {
			k.split = splitValues
		}
	case *Words:
		k.name, k.field = schema.TypeStrings.String(), schema.Strings(s.name)
		k.flag = func(flags *pflag.FlagSet) { flags.StringSliceVarP((*[]string)(into), s.name, s.short, *into, s.usage) }
		k.values = func(_ string, cfg schema.Config) ([]string, diag.List) { return cfg.Strings(s.name), nil }
		k.split = func(text string) []string { return strings.Split(text, ",") }
	case *Pairs:
		k.name, k.field = "map", schema.Any(s.name)
		k.flag = func(flags *pflag.FlagSet) {
			flags.StringArrayVarP((*[]string)(into), s.name, s.short, *into, s.usage+"; may be repeated")
		}
		k.values = func(_ string, cfg schema.Config) ([]string, diag.List) { return pairsOf(cfg.Raw(s.name), s.name) }
		k.split = lines
	default:
		panic(fmt.Sprintf("setting %s: no kind for %T", s.name, s.into))
	}
	if len(s.words) > 0 {
		k.field = schema.Enum(s.name, s.words...)
	}
	k.field.Doc(strings.ReplaceAll(s.usage, "`", ""))
	if s.secret {
		k.field.Secret()
	}
	return k
}

// config is what a config file sets, as the flags take it.
type config struct {
	path   string
	values map[string][]string
}

// readConfig reads the config file at a path, or the one of the working folder
// if path is empty. It prints what is wrong with it.
func readConfig(a *app.App, path string) (config, error) {
	named := path != ""
	if !named {
		path = ConfigFile
	}
	if _, err := os.Lstat(path); !named && errors.Is(err, fs.ErrNotExist) {
		return config{}, nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return config{}, app.Usagef("", "name a file", "config file: %s is a folder", path)
	}
	docs, err := spec.Read([]string{path}, nil)
	if err != nil {
		return config{}, app.Usagef("", "", "config file: %w", err)
	}
	c, list := parseConfig(New().table(), path, docs[0].Data)
	if len(list) > 0 {
		list.Sort()
		text := func(string) []byte { return docs[0].Data }
		if err := diag.Render(a.Stderr, list, text, a.ColourErr); err != nil {
			return config{}, err
		}
	}
	if list.HasErrors() {
		return config{}, &app.ExitError{Code: app.ExitUsage}
	}
	return c, nil
}

// readFolderConfig reads the config file of the folder that a command is for. The documents may
// be those of a stranger: a file that leads out of the folder is not read.
func readFolderConfig(a *app.App, folder string) (config, error) {
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return config{}, nil // a file, or a pipe, which opening would wait for; what is wrong is reported when the documents are read
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return config{}, nil // likewise
	}
	defer root.Close()
	path := filepath.Join(folder, ConfigFile)
	outside := func(what string) (config, error) {
		a.Talk("uniflow: warning: %s is not read: %s is not in the folder\nhint: if that is meant, write --config %s\n", show.Printable(path), show.Printable(what), show.Printable(path))
		return config{}, nil
	}
	if _, err := root.Stat(ConfigFile); err != nil {
		if _, err := root.Lstat(ConfigFile); errors.Is(err, fs.ErrNotExist) {
			return config{}, nil
		}
		return outside("what it links to")
	}
	c, err := readConfig(a, path)
	if err != nil {
		return config{}, err
	}
	for _, values := range c.values[FromValues] {
		within, err := filepath.Rel(folder, values)
		if err == nil {
			_, err = root.Stat(within)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return outside(values)
		}
	}
	return c, nil
}

func parseConfig(table []setting, path string, data []byte) (config, diag.List) {
	c := config{path: path, values: make(map[string][]string)}
	roots, list := yamltree.Read(path, data)
	if len(list) > 0 {
		return c, list
	}
	if len(roots) == 0 || roots[0].Kind == schema.RawScalar && roots[0].Value.IsNull() {
		return c, nil // an empty file
	}
	if len(roots) > 1 {
		return c, diag.List{diag.Errorf(diag.CodeWrongType, "a config file is one document").At(roots[1].Pos, "")}
	}
	fields := make([]*schema.Field, len(table))
	for i, row := range table {
		fields[i] = row.kind().field
	}
	cfg, found := schema.Fields(fields...).Decode(roots[0])
	list.Append(found)
	for _, row := range table {
		if cfg.Has(row.name) {
			values, found := row.kind().values(path, cfg)
			list.Append(found)
			c.values[row.name] = values
		}
	}
	return c, list
}

// pairsOf reads a map of scalars as KEY=VALUE.
func pairsOf(raw *schema.Raw, name string) (pairs []string, list diag.List) {
	if raw.Kind != schema.RawMap {
		d := diag.Errorf(diag.CodeWrongType, "must be a map, got %s", raw.What())
		list.Add(d.WithHint("write %s: {KEY: VALUE}", name).At(raw.Pos, name))
		return nil, list
	}
	for _, f := range raw.Fields {
		if f.Value.Kind != schema.RawScalar {
			list.Add(diag.Errorf(diag.CodeWrongType, "must be text, got %s", f.Value.What()).At(f.Value.Pos, name+"."+f.Name))
			continue
		}
		pairs = append(pairs, f.Name+"="+f.Value.Text.Code)
	}
	return pairs, list
}

// splitValues splits paths and the references env:NAME and file:PATH, which contain the
// character that separates paths.
func splitValues(text string) (all []string) {
	prefix := ""
	for _, part := range filepath.SplitList(text) {
		if prefix == "" && (part == "env" || part == "file") {
			prefix = part + ":"
			continue
		}
		all = append(all, prefix+part)
		prefix = ""
	}
	if prefix != "" {
		all = append(all, strings.TrimSuffix(prefix, ":"))
	}
	return all
}

// relativeTo makes paths relative to the folder of a config file.
func relativeTo(file string, paths []string) []string {
	resolved := make([]string, len(paths))
	for i, path := range paths {
		resolved[i] = path
		prefix := ""
		if rest, ok := strings.CutPrefix(path, "file:"); ok {
			prefix, path = "file:", rest
		}
		if path != app.StdinPath && !filepath.IsAbs(path) && !strings.HasPrefix(path, "env:") {
			resolved[i] = prefix + filepath.Join(filepath.Dir(file), path)
		}
	}
	return resolved
}
