// Package spell suggests the right spelling of a word, from a list of candidates.
package spell

import (
	"strings"
	"unicode/utf8"
)

// maxWord is the most characters of a word that gets a suggestion.
const maxWord = 64

// Nearest returns the candidate that is probably meant by word: the one with the fewest
// letters added, dropped, changed or swapped, at most a third of them. Of equals it is
// the first. If there is none, it is the only candidate that begins with word or with
// which word begins. ok is false if no candidate is near.
func Nearest(word string, candidates []string) (nearest string, ok bool) {
	w := []rune(strings.ToLower(word))
	if len(w) == 0 || len(w) > maxWord {
		return "", false
	}
	best := max(1, len(w)/3) + 1
	var table [3][maxWord + 1]int
	for _, c := range candidates {
		if c == word || c == "" {
			continue
		}
		if n := utf8.RuneCountInString(c); n-len(w) >= best || len(w)-n >= best || n > maxWord || n == 1 && len(w) == 1 && !strings.EqualFold(c, word) {
			continue
		}
		if d := distance(&table, w, []rune(strings.ToLower(c))); d < best {
			best, nearest, ok = d, c, true
		}
	}
	if ok || len(w) < 3 {
		return nearest, ok
	}
	for _, candidate := range candidates {
		if c := strings.ToLower(candidate); c != string(w) && (strings.HasPrefix(c, string(w)) || len(c) > 2 && strings.HasPrefix(string(w), c)) {
			if ok {
				return "", false
			}
			nearest, ok = candidate, true
		}
	}
	return nearest, ok
}

// distance counts the letters to add, drop, change or swap with their neighbour to
// turn a into b. Both have at most maxWord letters.
func distance(table *[3][maxWord + 1]int, a, b []rune) int {
	before, last, next := &table[0], &table[1], &table[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range a {
		next[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(last[j+1]+1, next[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
