package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A tool is one that clients may call. It is immutable.
type tool struct {
	sdk     *sdk.Tool
	port    int
	input   *jsonschema.Schema
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
	bad := func(format string, args ...any) error {
		return item.Errorf("input", diag.CodeBadValue, format, args...).WithHint("write a JSON Schema of an object, such as {properties: {id: {type: integer}}, required: [id]}")
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
	data, err := input.MarshalJSON()
	if err != nil {
		return bad("not JSON: %v", err)
	}
	t.sdk.InputSchema = json.RawMessage(data)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return bad("not JSON: %v", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // no file, no network
	const place = "input:schema"
	err = compiler.AddResource(place, doc)
	if err == nil {
		t.input, err = compiler.Compile(place)
	}
	if err != nil {
		var found *jsonschema.SchemaValidationError
		if errors.As(err, &found) {
			return bad("not a JSON Schema: %s", strings.Join(mistakes(found.Err), "; "))
		}
		return bad("not a JSON Schema: %s", strings.ReplaceAll(err.Error(), place+"#", ""))
	}
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

// check returns what is wrong with arguments.
func (t *tool) check(arguments json.RawMessage) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return invalid([]string{"not JSON"})
	}
	if err := t.input.Validate(doc); err != nil {
		return invalid(mistakes(err))
	}
	return nil
}

// mistakes returns what a schema says of a document, each with its place.
func mistakes(err error) (lines []string) {
	var found *jsonschema.ValidationError
	if !errors.As(err, &found) {
		return []string{err.Error()}
	}
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) == 0 && len(lines) < maxFindings {
			lines = append(lines, "/"+strings.Join(e.InstanceLocation, "/")+": "+e.ErrorKind.LocalizedString(printer))
		}
	}
	walk(found)
	return lines
}

// maxFindings is how many mistakes are told.
const maxFindings = 20

func invalid(lines []string) error {
	return &node.Error{Err: errors.New("the arguments do not match the schema: " + strings.Join(lines, "; ")), Status: http.StatusUnprocessableEntity, Code: "arguments", Public: true}
}
