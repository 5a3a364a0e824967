package query_test

import (
	"errors"
	"fmt"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// Parse reports all problems of a document. The text of each has its place; what to write
// instead is a field, as programs show it on a line of its own.
func ExampleParse() {
	_, err := query.Parse("wrong.yaml", []byte("funnel:\n  steps: [visit, purchase]\n  withn: 24h\n  mode: strict_ordr\n"))
	var problems query.Errors
	if errors.As(err, &problems) {
		for _, p := range problems {
			fmt.Println(p)
			fmt.Println("  hint:", p.Hint)
		}
	}
	// Output:
	// wrong.yaml:3:3: unknown key "withn" in funnel
	//   hint: did you mean within?
	// wrong.yaml:4:9: unknown mode "strict_ordr"
	//   hint: did you mean strict_order?
}
