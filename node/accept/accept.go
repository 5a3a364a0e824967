// Package accept reads the headers in which clients say what they take, and how much they
// like it: Accept and Accept-Encoding (RFC 9110, section 12.5).
//
// [Type] is for media types, [Coding] for content codings, and [Named] for what a client has
// to name. All take the lines of the header, and return weights in thousandths: 0 is not at
// all. A weight that is not a number from 0 to 1 counts as 0, and a name without one as
// 1000. Of several entries that fit equally well, the first counts. Nothing is allocated.
package accept

import (
	"strconv"
	"strings"
)

// Type returns the weight of a media type without parameters. Ranges such as text/* fit less
// well than the type itself, and */* least.
func Type(lines []string, name string) (weight int) {
	major, _, _ := strings.Cut(name, "/")
	weight, _ = find(lines, func(entry string) int {
		switch {
		case strings.EqualFold(entry, name):
			return 3
		case len(entry) == len(major)+2 && strings.HasSuffix(entry, "/*") && strings.EqualFold(entry[:len(major)], major):
			return 2
		case entry == "*/*" || entry == "*":
			return 1
		}
		return 0
	})
	return weight
}

// Coding returns the weight of a content coding: gzip is also x-gzip, and * is all that are
// not named.
func Coding(lines []string, name string) (weight int) {
	weight, _ = find(lines, func(entry string) int {
		switch {
		case strings.EqualFold(entry, name) || name == "gzip" && strings.EqualFold(entry, "x-gzip"):
			return 2
		case entry == "*":
			return 1
		}
		return 0
	})
	return weight
}

// Named returns the weight of what the header names, and whether it does. Ranges do not
// count.
func Named(lines []string, name string) (weight int, ok bool) {
	weight, fits := find(lines, func(entry string) int {
		if strings.EqualFold(entry, name) {
			return 1
		}
		return 0
	})
	return weight, fits > 0
}

// find returns the weight of the entry that fits best, and how well it does: 0 is not at
// all.
func find(lines []string, fit func(entry string) int) (weight, best int) {
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			entry, params, _ := strings.Cut(item, ";")
			if n := fit(strings.TrimSpace(entry)); n > best {
				weight, best = weightOf(params), n
			}
		}
	}
	return weight, best
}

// weightOf returns the weight among parameters.
func weightOf(params string) int {
	for param := range strings.SplitSeq(params, ";") {
		name, text, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		text = strings.TrimSpace(text)
		if text == "" || strings.Trim(text, "0123456789.") != "" {
			return 0
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f > 1 {
			return 0
		}
		return int(f*1000 + 0.5)
	}
	return 1000
}
