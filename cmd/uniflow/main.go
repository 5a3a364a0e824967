// Command uniflow serves, checks and formats workflows.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // time zones of queries, on systems without a database of them

	_ "github.com/uniflow-labs/uniflow/cmd/uniflow/internal/first"
	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], app.System()))
}
