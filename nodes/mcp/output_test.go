package mcp_test

import (
	"regexp"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const described = `
- kind: mcp
  name: tools
  tools:
    - {name: order, description: Finds., output: {properties: {id: {type: integer}, state: {type: string}}, required: [id]}}
    - {name: wrong, description: Finds., output: {properties: {id: {type: integer}}, required: [id]}}
    - {name: text, description: Says., output: {properties: {id: {type: integer}}}}
    - {name: nothing, description: Nothing., output: {}}
  ports:
    out[0]: [{name: order, port: in}]
    out[1]: [{name: wrong, port: in}]
    out[2]: [{name: text, port: in}]
    out[3]: [{name: nothing, port: in}]
- {kind: snippet, name: order, language: cel, code: '{"id": 7, "state": "sent"}'}
- {kind: snippet, name: wrong, language: cel, code: '{"id": "hush"}'}
- {kind: snippet, name: text, language: text, code: hush}
- {kind: nop, name: nothing}
`

// TestOutput expects that clients see the schema of an answer, and get none that does not
// fit.
func TestOutput(t *testing.T) {
	for _, form := range forms {
		w := serve(t, front+described)
		s := connectBy(t, w, form.version, nil, nil)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		shown := list.Tools[slices.IndexFunc(list.Tools, func(t *sdk.Tool) bool { return t.Name == "order" })].OutputSchema
		if m, ok := shown.(map[string]any); !ok || m["type"] != "object" {
			t.Errorf("got the schema %v", shown)
		}
		for tool, want := range map[string]string{
			"order":   `^ok {"id":7,"state":"sent"} \[map\[id:7 state:sent\]\]$`,
			"wrong":   `^failed the tool has failed: Internal Server Error \(process [-0-9a-f]{36}\)$`,
			"text":    `^failed the tool has failed: Internal Server Error`,
			"nothing": `^failed the tool has failed: Internal Server Error`,
		} {
			if got := call(t, s, tool, nil); !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s: got %q, want %s", tool, got, want)
			}
		}
	}
}
