package flow

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/openapi"
)

const openapiLong = `Openapi prints a document of OpenAPI 3.1 of the routes in documents. It follows from the
routers and the nodes behind them: validate has the bodies and parameters, auth the
credentials, throw and limit the errors, constants the answers; the field doc of a route
adds the rest. Nothing is started.

A router serves the same document if it has the field openapi.`

const openapiExample = `  uniflow openapi orders.yaml > openapi.json
  uniflow openapi --router api flows`

func openapiCommand(a commands) *cobra.Command {
	s := settings.New()
	var router string
	cmd := &cobra.Command{
		Use:     "openapi [FILE...]",
		Short:   "Print an OpenAPI document of the routes",
		Long:    openapiLong,
		Example: openapiExample,

		ValidArgsFunction: completeDocuments,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	s.AddDocumentFlags(cmd)
	flags.StringVar(&router, "router", "", "only the routes of the router `NAME`, and of those behind it")
	flags.Bool("json", true, "print JSON, which is the only format")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := s.Resolve(a.App, cmd, args...); err != nil {
			return err
		}
		if len(s.Specs) == 0 {
			return app.Usagef(cmd.CommandPath(), "write openapi FILE", "no files are named")
		}
		return a.openapi(cmd, s, router, len(args) == 0)
	}
	return cmd
}

var errNoRouter = errors.New("there is no such router")

func (a commands) openapi(cmd *cobra.Command, s *settings.Settings, name string, joined bool) error {
	o, err := a.overview(cmd, s, joined)
	if err != nil {
		return err
	}
	var routers []*node.Vertex
	var info openapi.Info
	for _, outline := range o.outlines {
		for _, v := range openapi.Routers(outline.Vertices) {
			if v.Ref.Namespace != s.Namespace || name != "" && v.Ref.Name != name {
				continue
			}
			routers = append(routers, v)
			if info.Title == "" {
				info = openapi.InfoOf(v.Config)
			}
		}
	}
	if len(routers) == 0 {
		return &app.ExitError{Code: app.ExitFindings, Err: errNoRouter, Hint: "name a node of kind router, or leave --router out: see uniflow describe router"}
	}
	text, err := json.MarshalIndent(openapi.Document(routers, info), "", "  ")
	if err != nil {
		return err
	}
	return a.Print(o.redact(string(text)) + "\n")
}
