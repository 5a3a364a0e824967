//go:build amd64 || arm64

package external

// PossibleWith is what a start says of a sandbox, on a kernel with a version of Landlock.
func PossibleWith(landlock int, read, write []string) error {
	s := &sandbox{Read: read, Write: write}
	return s.possibleWith(landlock)
}
