package serve

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node/accept"
)

// A coding is how a file next to another one is compressed.
type coding struct{ name, extension string }

// codings are those that the field compressed may name.
var codings = map[string]coding{
	"br":   {"br", ".br"},
	"zstd": {"zstd", ".zst"},
	"gzip": {"gzip", ".gz"},
}

// compressed opens the file next to another one that a client prefers; nil if there is
// none. One that is older than the file by more than strong was made of an earlier one.
func (n *static) compressed(lines []string, name string, modified time.Time) (file, coding, error) {
	if len(lines) == 0 {
		return nil, coding{}, nil
	}
	var order [3]weighted
	for _, c := range accepted(order[:0], lines, n.codings) {
		f, info, err := n.stat(name + c.extension)
		switch {
		case errors.Is(err, errNotFound) || errors.Is(err, fs.ErrPermission):
			continue
		case err != nil:
			return nil, coding{}, err
		case info.Mode().IsRegular() && info.ModTime().After(modified.Add(-strong)):
			return f, c.coding, nil
		}
		if err := f.Close(); err != nil {
			return nil, coding{}, err
		}
	}
	return nil, coding{}, nil
}

type weighted struct {
	coding
	weight int
}

// accepted appends those codings to list that a client accepts, what it likes best first.
func accepted(list []weighted, lines []string, offered []coding) []weighted {
	for _, c := range offered {
		if weight := accept.Coding(lines, c.name); weight > 0 {
			list = append(list, weighted{c, weight})
		}
	}
	slices.SortStableFunc(list, func(a, b weighted) int { return cmp.Compare(b.weight, a.weight) })
	return list
}

// compressible reports whether files of a type become smaller.
func compressible(mediaType string) bool {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	switch class, rest, _ := strings.Cut(mediaType, "/"); class {
	case "text":
		return true
	case "image":
		return rest == "svg+xml" || rest == "x-icon"
	case "font":
		return rest == "ttf" || rest == "otf"
	case "application":
		return rest != "zip" && rest != "octet-stream" && rest != "pdf"
	}
	return false
}
