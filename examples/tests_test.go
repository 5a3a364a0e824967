package examples

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

// The tests in the workflows, with the arguments that their comments give.
func TestTests(t *testing.T) {
	args := map[string][]string{
		"agent.yaml": nil,
		"api.yaml":   nil,
		"gateway.yaml": {
			"--mock", "stock=gateway/stock.cel", "--mock", "price=gateway/price.cel", "--mock", "reviews=gateway/reviews.js",
		},
		"job.yaml":    {"-e", "DATABASE=:memory:", "--mock", "products=job/products.js"},
		"orders.yaml": {"-e", "ORDERS_KEY=a key of the tests, which is long", "-e", "TOKEN_SECRET=a secret of at least thirty-two bytes"},
		"prices.yaml": nil,
	}
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := args[file]; ok != strings.Contains(string(data), "\n- kind: test\n") {
			t.Errorf("%s: it has tests and is not run here, or the other way round", file)
		}
	}
	for file, more := range args {
		t.Run(file, func(t *testing.T) {
			var out bytes.Buffer
			machine := app.System()
			machine.Stdout, machine.Stderr = &out, &out
			if code := cli.Main(t.Context(), append([]string{"test", "--from-specs", file}, more...), machine); code != 0 {
				t.Errorf("got exit code %d:\n%s", code, out.String())
			}
		})
	}
}
