package query

// Nearest returns which of the words was probably meant, "" if none is near.
func Nearest(word string, words []string) string {
	near, _ := nearest(word, words)
	return near
}
