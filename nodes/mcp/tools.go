package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sync"
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
	output  *jsonschema.Schema // of the answer; nil for any
	timeout time.Duration
	text    string // what clients see of it
	call    *node.Call
}

// toolName are the names that the protocol has.
var toolName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`) })

func newTools(init *node.Init) ([]*tool, error) {
	c, links := init.Config, init.OutLinks
	var tools []*tool
	seen := make(map[string]bool)
	for k, item := range c.List("tools") {
		name := item.String("name")
		if !toolName().MatchString(name) {
			return nil, item.Errorf("name", diag.CodeBadValue, "%q cannot be the name of a tool", name).WithHint("use up to 128 letters, digits and _ . - such as find_order")
		}
		if seen[name] {
			return nil, item.Errorf("name", diag.CodeBadValue, "there is another tool %q", name).WithHint("give each tool a name of its own")
		}
		seen[name] = true
		if k < len(links) && links[k] == 0 {
			return nil, item.Errorf("", diag.CodeBadValue, "tool %q does nothing, as out[%d] has no link", name, k).WithHint("add it to ports: \"out[%d]\": NODE", k)
		}
		t := &tool{port: k, timeout: item.Duration("timeout"), sdk: &sdk.Tool{Name: name, Title: item.String("title"), Description: item.String("description")}}
		if item.Bool("read_only") {
			t.sdk.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true}
		}
		if err := t.setSchemas(item, init.Warn); err != nil {
			return nil, err
		}
		t.call = node.NewCall(t.answered)
		tools = append(tools, t)
	}
	if len(tools) == 0 {
		return nil, c.Errorf("tools", diag.CodeBadValue, "a server without tools").WithHint("write tools: [{name: …, description: …, input: …}]")
	}
	return tools, nil
}

// setSchemas compiles the schemas of the arguments and of the answer.
func (t *tool) setSchemas(item schema.Config, warn func(*diag.Diagnostic)) (err error) {
	if t.input, t.sdk.InputSchema, err = objectOf(item, "input", "arguments"); err != nil {
		return err
	}
	jsonschema.Warn(warn, item, "input", t.input.Doubts())
	if err := accepted(t.sdk); err != nil {
		return item.Errorf("input", diag.CodeBadValue, "%v", err).WithHint(hintSchema)
	}
	if item.Has("output") {
		if t.output, t.sdk.OutputSchema, err = objectOf(item, "output", "answers"); err != nil {
			return err
		}
		jsonschema.Warn(warn, item, "output", t.output.Doubts())
		if err := accepted(t.sdk); err != nil {
			return item.Errorf("output", diag.CodeBadValue, "%v", err).WithHint(hintSchema)
		}
	}
	text, err := json.Marshal(t.sdk)
	t.text = string(text)
	return err
}

const hintSchema = "write a JSON Schema of an object, such as {properties: {id: {type: integer}}, required: [id]}"

// objectOf compiles a field that is the schema of an object, of arguments or answers, and
// returns it as clients get it.
func objectOf(item schema.Config, field, what string) (*jsonschema.Schema, json.RawMessage, error) {
	doc := item.Value(field)
	bad := func(format string, args ...any) (*jsonschema.Schema, json.RawMessage, error) {
		return nil, nil, item.Errorf(field, diag.CodeBadValue, format, args...).WithHint(hintSchema)
	}
	if doc.IsNull() {
		doc = value.Map()
	}
	if doc.Kind() != value.KindMap {
		return bad("want a map, got %s", doc.Kind())
	}
	kind, ok := doc.Get("type")
	if !ok {
		doc = doc.With("type", value.String("object"))
	} else if text, _ := kind.AsString(); text != "object" {
		return bad("%s are an object: type must be object", what)
	}
	s, err := jsonschema.Compile(doc, jsonschema.Options{Hidden: item.Hidden(field)})
	if err != nil {
		return nil, nil, jsonschema.At(item, field, err, hintSchema)
	}
	data, err := doc.MarshalJSON()
	if err != nil {
		return bad("not JSON: %v", err)
	}
	return s, data, nil
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

// maxProblems is how many problems of arguments, or of an answer, an error lists.
const maxProblems = 20

// read returns arguments, or what is wrong with them.
func (t *tool) read(arguments json.RawMessage) (value.Value, error) {
	v, err := value.ParseJSON(arguments)
	if err != nil {
		return v, invalid("not JSON")
	}
	if problems := t.input.Explain(v, maxProblems, "; "); problems != "" {
		return v, invalid(problems)
	}
	return v, nil
}

// answered makes an error, and an answer that does not fit, a failure of the node, which may
// go to its port error.
func (t *tool) answered(_ node.Process, resp node.Response) node.Result {
	err := resp.Payload.AsError()
	if err == nil {
		err = t.check(resp.Payload)
	}
	if err != nil {
		return node.Fail(err)
	}
	return node.Respond(resp)
}

// check returns what is wrong with an answer.
func (t *tool) check(answer value.Value) error {
	if t.output == nil {
		return nil
	}
	if problems := t.output.Explain(answer, maxProblems, "; "); problems != "" {
		return &node.Error{Err: errors.New("the answer does not match the schema output: " + problems), Status: http.StatusInternalServerError, Code: "output"}
	}
	return nil
}

func invalid(problems string) error {
	return &node.Error{Err: errors.New("the arguments do not match the schema: " + problems), Status: http.StatusUnprocessableEntity, Code: "arguments", Public: true}
}
