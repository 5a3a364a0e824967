package files

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/node/input"
)

// originals returns the names that a file may have had before it was rotated, unless it was
// renamed: the log a.log, of which it is a.log.1, a.log.1.gz, a.log-20240102,
// a-20240102.log or a.2024-01-02T00:00:00.log.zst, and a.log.1 and a.log.2 of a.log.2.gz. The
// log may be in the same folder, or in the one above.
func originals(path string) (paths []string) {
	dir, name := filepath.Split(filepath.Clean(path))
	var names []string
	if ext := input.PackingOf(name); ext != "" {
		name = name[:len(name)-len(ext)]
		names = append(names, name)
	}
	for i := 1; i < len(name)-1; i++ {
		if !strings.ContainsRune("-._", rune(name[i])) || name[i+1] < '0' || name[i+1] > '9' {
			continue
		}
		stamp := name[i+1:]
		stamp = stamp[:len(stamp)-len(strings.TrimLeft(stamp, stampRunes))]
		stamp = strings.TrimRight(stamp, "-._:")
		names = append(names, name[:i]+name[i+1+len(stamp):])
		if n, err := strconv.Atoi(name[i+1:]); err == nil && n < maxNumber {
			for n--; n > 0; n-- {
				names = append(names, name[:i+1]+strconv.Itoa(n))
			}
		}
	}
	for _, name := range names {
		paths = append(paths, dir+name, filepath.Join(dir, "..", name))
	}
	return paths
}

// dateOf returns the digits of the date in a name, "" if there is none. A rotation never
// changes it.
func dateOf(path string) string {
	isStamp := func(r rune) bool { return strings.ContainsRune(stampRunes, r) }
	for word := range strings.FieldsFuncSeq(filepath.Base(path), func(r rune) bool { return !isStamp(r) }) {
		digits := strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, word)
		if len(digits) >= 8 {
			return digits
		}
	}
	return ""
}

// stampRunes are what dates and numbers in names are of.
const stampRunes = "0123456789-._:TZ"

// maxNumber is above the numbers that rotated files have. What is more is a date.
const maxNumber = 1000
