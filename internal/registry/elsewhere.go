package registry

// elsewhere are kinds of modules that are not part of the program, by name: the import paths
// of the packages that have them.
var elsewhere = map[string]string{
	"markdown": "github.com/uniflow-labs/uniflow/kinds/markdown",
}

// Elsewhere returns how to get a kind that the program lacks; empty if no module is known
// that has it.
func Elsewhere(kind string) string {
	if path := elsewhere[kind]; path != "" {
		return path + " has it: uniflow build --with " + path
	}
	return ""
}
