package tabular

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// A fileFormat is a format of files that can be read.
type fileFormat struct {
	name       string
	extensions []string
	packable   bool // also compressed, with one of packings as a second extension
	open       func(in *input, opt Options) (source, error)
}

// formats are all formats, and packings the extensions of compressed files.
var (
	formats = []fileFormat{
		{"CSV", []string{"csv"}, true, opens(newCSV)},
		{"NDJSON", []string{"ndjson", "jsonl"}, true, opens(newNDJSON)},
		{"Parquet", []string{"parquet"}, false, opens(newParquetAhead)},
	}
	packings = []string{"gz", "zst"}
)

// opens makes the constructor of a format return a source.
func opens[S source](open func(*input, Options) (S, error)) func(*input, Options) (source, error) {
	return func(in *input, opt Options) (source, error) { return open(in, opt) }
}

// Extensions returns the extensions of files that can be read, without the dot.
func Extensions() []string {
	var all []string
	for _, f := range formats {
		all = append(all, f.extensions...)
	}
	return append(all, packings...)
}

// CheckName returns an error for a file whose extension is not of a known format.
func CheckName(path string) error {
	_, _, err := formatOf(path)
	return err
}

// formatOf returns the format of a file and how it is packed ("", "gz" or "zst").
func formatOf(path string) (f fileFormat, packed string, err error) {
	name := strings.ToLower(filepath.Base(strings.ReplaceAll(path, `\`, "/")))
	if path == "-" {
		name = "stdin.ndjson"
	}
	for _, p := range packings {
		if rest, ok := strings.CutSuffix(name, "."+p); ok {
			name, packed = rest, p
		}
	}
	ext := strings.TrimPrefix(filepath.Ext(name), ".")
	for _, f := range formats {
		if slices.Contains(f.extensions, ext) && (packed == "" || f.packable) {
			return f, packed, nil
		}
	}
	return fileFormat{}, "", errors.New("unknown format: the extension must be " + allowedExtensions())
}

func allowedExtensions() string {
	var packable, plain []string
	for _, f := range formats {
		for _, e := range f.extensions {
			if f.packable {
				packable = append(packable, "."+e)
			} else {
				plain = append(plain, "."+e)
			}
		}
	}
	last := len(packable) - 1
	return strings.Join(packable[:last], ", ") + " or " + packable[last] +
		", also with ." + strings.Join(packings, " or .") + " after it, or " + strings.Join(plain, " or ")
}
