package diag

import "slices"

// An Entry is the text of `uniflow explain` for a code.
type Entry struct {
	Code        Code
	Title       string // one line, without a full stop
	Explanation string // Markdown
	Bad         string // a YAML document with the finding; empty if no document can show it
	Good        string // the corrected document
}

// Catalogue returns the entries of all codes, in the order of the codes. Constant
// and entry of a code are in the file of its range. The caller owns the slice.
func Catalogue() []Entry {
	return slices.Concat(documentEntries(), configEntries(), linkEntries(), codeEntries(), lintEntries(), runEntries())
}

// Lookup returns the entry of a code. The letter may be lower case.
func Lookup(code Code) (Entry, bool) {
	if len(code) > 0 && code[0] == 'f' {
		code = "F" + code[1:]
	}
	all := Catalogue()
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Code == code })
	if i < 0 {
		return Entry{}, false
	}
	return all[i], true
}
