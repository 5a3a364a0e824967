package node

import "unicode/utf8"

// Clip returns a text of at most that many bytes as it is, and of a longer one the
// beginning, up to whole characters, and an ellipsis. Errors and log records quote what
// came from outside with it.
func Clip(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes] + "…"
}
