package serve

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
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
func (n *static) compressed(accept []string, name string, modified time.Time) (file, coding, error) {
	if len(accept) == 0 {
		return nil, coding{}, nil
	}
	var order [3]weighted
	for _, c := range accepted(order[:0], accept, n.codings) {
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
	weight float64
}

// accepted appends those codings to list that a client accepts, what it likes best first.
func accepted(list []weighted, accept []string, offered []coding) []weighted {
	for _, c := range offered {
		weight, any := -1.0, 0.0
		for _, line := range accept {
			for part := range strings.SplitSeq(line, ",") {
				name, params, _ := strings.Cut(part, ";")
				switch name = strings.TrimSpace(name); {
				case strings.EqualFold(name, c.name) || c.name == "gzip" && strings.EqualFold(name, "x-gzip"):
					weight = max(weight, quality(params))
				case name == "*":
					any = quality(params)
				}
			}
		}
		if weight < 0 {
			weight = any
		}
		if weight > 0 {
			list = append(list, weighted{c, weight})
		}
	}
	slices.SortStableFunc(list, func(a, b weighted) int { return cmp.Compare(b.weight, a.weight) })
	return list
}

// quality returns the weight among the parameters of a coding: 1 without one, 0 if it is
// not a number from 0 to 1.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, text, ok := strings.Cut(strings.TrimSpace(param), "=")
		if !ok || !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
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
