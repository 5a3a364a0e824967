package compile

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// hintCommon completes the hints of unknown fields that may have been meant as one of
// the fields that all kinds have, or as one of the out-ports.
func hintCommon(config *schema.Raw, out []node.Port, list diag.List) {
	for _, d := range list {
		if d.Code != diag.CodeUnknownField || config.Field(d.Path) == nil || d.Fix != nil {
			continue
		}
		d.Suggest(d.Path, spec.CommonFields())
		base, _, indexed, _ := splitPort(d.Path)
		if slices.ContainsFunc(out, func(port node.Port) bool { return base == port.Name || base == errorPort }) {
			key := d.Path
			if indexed {
				key = strconv.Quote(key)
			}
			d.Fix = nil
			d.Hint = "links are in ports: write ports: {" + key + ": NODE}"
		}
	}
}

// probe returns what is wrong with the code of a unit whose config is broken, so that
// its author learns of all mistakes together. It makes the node of the fields that are
// right, and keeps the findings about code only: others may follow from fields that are
// missing. If the language could not be read, nothing is known about code.
func (c *compiler) probe(i int32) (found []*diag.Diagnostic) {
	u := &c.units[i]
	known := make(map[diag.Pos]bool)
	for _, d := range u.found {
		known[d.Pos] = true
		if strings.HasSuffix(d.Path, "language") || strings.Contains(d.Hint, `"language"`) {
			return nil
		}
	}
	if u.def.Subgraph != node.NoSubgraph {
		return nil
	}
	defer func() {
		if recover() != nil { // of a kind that relies on its config
			found = nil
		}
	}()
	init := c.init(i, slog.New(slog.DiscardHandler))
	init.Warn = nil
	_, err := u.def.New(init)
	if err == nil {
		return nil
	}
	return slices.DeleteFunc(findings(err), func(d *diag.Diagnostic) bool {
		return !strings.HasPrefix(string(d.Code), "F4") || !d.Pos.IsValid() || known[d.Pos]
	})
}
