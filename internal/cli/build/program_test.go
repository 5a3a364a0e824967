package build

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

// TestUnreleased is what the go command says of modules and packages of this product that are not there. All other
// errors stay its own.
func TestUnreleased(t *testing.T) {
	for _, c := range []struct{ source, said, want, hint string }{
		{"", "go: " + host + "@v0.1.0: reading https://proxy.example.com/" + host + "/@v/v0.1.0.mod: 403 Forbidden\n\tserver response: not available", "no release v0.1.0 of " + host + ",", "--source FOLDER"},
		{"", "go: example.com/geo@v1.0.0 requires\n\t" + host + "@v0.0.0-20240101000000-abcdefabcdef: invalid version: unknown revision abcdefabcdef", "no release v0.0.0-20240101000000-abcdefabcdef of", "--source FOLDER"},
		{"", "go: " + host + "/trail@v0.1.0: reading file:///m/trail/@v/v0.1.0.mod: no such file or directory", "of " + host + "/trail,", "--source FOLDER"},
		{"../../..", "go: " + host + "/kinds/markdown@latest: module " + host + "/kinds/markdown: reading https://p/list: 404 Not Found", "no release latest of", "--with " + host + "/kinds/markdown=../../../kinds/markdown"},
		{"../../..", "go: " + host + "/old@v0.1.0: module lookup disabled by GOPROXY=off", "of " + host + "/old,", "name another one"},
		{"../../..", "go: example.com/geo imports\n\t" + host + "/node/none: cannot find module providing package " + host + "/node/none", "does not have the package " + host + "/node/none", "made for this version"},
		{"../../..", "go: module " + host + "@v0.1.0 found (replaced by ../../..), but does not contain package " + host + "/kinds/markdown", "does not have the package " + host + "/kinds/markdown", "--with " + host + "/kinds/markdown=../../../kinds/markdown"},
		{"", "go: example.com/geo@v1.0.0: reading https://proxy.example.com/example.com/geo/@v/v1.0.0.mod: 404 Not Found", "<nil>", ""},
		{"", "go: " + host + `@v0.1.0: Get "https://proxy.example.com/": dial tcp: lookup proxy.example.com: no such host`, "<nil>", ""},
	} {
		err := (&program{source: c.source}).unreleased(c.said)
		hint := ""
		var exit *app.ExitError
		if errors.As(err, &exit) {
			hint = exit.Hint
		}
		if !strings.Contains(fmt.Sprint(err), c.want) || !strings.Contains(hint, c.hint) {
			t.Errorf("%s\ngot %v, hint %q, want %q, hint %q", c.said, err, hint, c.want, c.hint)
		}
	}
}
