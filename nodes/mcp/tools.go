package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/jsonschema"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A tool is one that clients may call. It is immutable.
type tool struct {
	sdk     *sdk.Tool
	port    int
	input   *jsonschema.Schema // of the arguments
	timeout time.Duration
	text    string // what clients see of it
}

// toolName are the names that the protocol has.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func newTools(c schema.Config, links []int) ([]*tool, error) {
	var tools []*tool
	seen := make(map[string]bool)
	for k, item := range c.List("tools") {
		name := item.String("name")
		if !toolName.MatchString(name) {
			return nil, item.Errorf("name", diag.CodeBadValue, "%q cannot be the name of a tool", name).WithHint("use up to 128 letters, digits and _ . - such as find_order")
		}
		if seen[name] {
			return nil, item.Errorf("name", diag.CodeBadValue, "there is another tool %q", name).WithHint("give each tool a name of its own")
		}
		seen[name] = true
		if k < len(links) && links[k] == 0 {
			return nil, item.Errorf("", diag.CodeBadValue, "tool %q does nothing, as out[%d] has no link", name, k).WithHint("add it to ports: \"out[%d]\": [{name: NODE, port: in}]", k)
		}
		t := &tool{port: k, timeout: item.Duration("timeout"), sdk: &sdk.Tool{Name: name, Title: item.String("title"), Description: item.String("description")}}
		if item.Bool("read_only") {
			t.sdk.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true}
		}
		if err := t.setInput(item); err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	if len(tools) == 0 {
		return nil, c.Errorf("tools", diag.CodeBadValue, "a server without tools").WithHint("write tools: [{name: …, description: …, input: …}]")
	}
	return tools, nil
}

// setInput compiles the schema of the arguments.
func (t *tool) setInput(item schema.Config) error {
	input := item.Value("input")
	const hint = "write a JSON Schema of an object, such as {properties: {id: {type: integer}}, required: [id]}"
	bad := func(format string, args ...any) error {
		return item.Errorf("input", diag.CodeBadValue, format, args...).WithHint("%s", hint)
	}
	if input.IsNull() {
		input = value.Map()
	}
	if input.Kind() != value.KindMap {
		return bad("want a map, got %s", input.Kind())
	}
	kind, ok := input.Get("type")
	if !ok {
		input = input.With("type", value.String("object"))
	} else if text, _ := kind.AsString(); text != "object" {
		return bad("arguments are an object: type must be object")
	}
	var err error
	if t.input, err = jsonschema.Compile(input, jsonschema.Options{Hidden: item.Hidden("input")}); err != nil {
		return jsonschema.At(item, "input", err, hint)
	}
	data, err := input.MarshalJSON()
	if err != nil {
		return bad("not JSON: %v", err)
	}
	t.sdk.InputSchema = json.RawMessage(data)
	if err := accepted(t.sdk); err != nil {
		return bad("%v", err)
	}
	text, err := json.Marshal(t.sdk)
	t.text = string(text)
	return err
}

// accepted returns why the library does not take a tool. It panics then.
func accepted(t *sdk.Tool) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	sdk.NewServer(&sdk.Implementation{Name: "check"}, nil).AddTool(t, nil)
	return nil
}

// maxProblems is how many problems of arguments are told.
const maxProblems = 20

// read returns arguments, or what is wrong with them.
func (t *tool) read(arguments json.RawMessage) (value.Value, error) {
	v, err := value.ParseJSON(arguments)
	if err != nil {
		return v, invalid("not JSON")
	}
	if found := t.input.Problems(v, maxProblems); found != nil {
		lines := make([]string, len(found))
		for i, p := range found {
			lines[i] = p.String()
		}
		return v, invalid(strings.Join(lines, "; "))
	}
	return v, nil
}

func invalid(problems string) error {
	return &node.Error{Err: errors.New("the arguments do not match the schema: " + problems), Status: http.StatusUnprocessableEntity, Code: "arguments", Public: true}
}
