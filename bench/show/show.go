// Package show shows numbers as the tables of benchmarks have them, and writes
// what was measured to a file. It measures nothing.
package show

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
)

// Short shows three digits that matter.
func Short(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Thousands shows a whole number with commas.
func Thousands(n int64) string {
	if n < 0 {
		return "-" + Thousands(-n)
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Write puts what was measured into a file as JSON, and makes its folder.
func Write(path string, measured any) error {
	data, err := json.MarshalIndent(measured, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
